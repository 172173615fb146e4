"""Downloads from a real server on this machine, which breaks off, lies and forgets."""

import hashlib
import io
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from everlearn.data import download as module
from everlearn.data.download import download
from everlearn.errors import DataError

CONTENT = bytes(range(256)) * 1200  # several of the network's blocks
SHA256 = hashlib.sha256(CONTENT).hexdigest()
MD5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()
CUT = 200_000

Answer = Callable[["Handler", bytes], None]


class Handler(BaseHTTPRequestHandler):
    """Gives each request the next answer of the script; the last one answers all others."""

    server: "Server"

    def do_GET(self) -> None:
        script = self.server.script
        self.server.ranges.append(self.headers.get("Range"))
        answer = script.pop(0) if len(script) > 1 else script[0]
        answer(self, self.server.content)

    def send(self, status: int, body: bytes, *, declared: int | None = None, **headers: str) -> None:
        """Send a body, with whatever length is declared: −1 for none."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if declared != -1:
            self.send_header("Content-Length", str(len(body) if declared is None else declared))
        self.end_headers()
        self.wfile.write(body)
        self.server.sent += len(body)

    @property
    def first(self) -> int:
        """The first byte that was asked for."""
        return int(re.findall(r"\d+", self.headers.get("Range", "0"))[0])

    def log_message(self, *_: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    """A server in a thread of its own; it counts what it was asked for and what it sent."""

    def __init__(self, content: bytes = CONTENT, *script: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = content
        self.script: list[Answer] = list(script)
        self.ranges: list[str | None] = []
        self.sent = 0
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/file.bin"

    def __enter__(self) -> "Server":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


def well(handler: Handler, content: bytes) -> None:
    """As a good server answers, from the byte that is asked for on."""
    k = handler.first
    if "Range" not in handler.headers:
        handler.send(200, content)
    elif k >= len(content):
        handler.send(416, b"", Content_Range=f"bytes */{len(content)}")
    else:
        handler.send(206, content[k:], Content_Range=f"bytes {k}-{len(content) - 1}/{len(content)}")


def breaks_off(handler: Handler, content: bytes) -> None:
    handler.send(200, content[:CUT], declared=len(content))


def breaks_off_unsaid(handler: Handler, content: bytes) -> None:
    handler.send(200, content[:CUT], declared=-1)


def too_much_unsaid(handler: Handler, content: bytes) -> None:
    handler.send(200, content + b"more", declared=-1)


def forgets_ranges(handler: Handler, content: bytes) -> None:
    handler.send(200, content)


def from_the_wrong_place(handler: Handler, content: bytes) -> None:
    handler.send(206, content[5:], Content_Range=f"bytes 5-{len(content) - 1}/{len(content)}")


def says_too_much(handler: Handler, content: bytes) -> None:
    handler.send(200, content, declared=len(content) + 10)


def says_too_little(handler: Handler, content: bytes) -> None:
    handler.send(200, content, declared=len(content) - 10)


def sends_others(handler: Handler, content: bytes) -> None:
    handler.send(200, content[::-1])


def status(code: int) -> Answer:
    return lambda handler, _: handler.send(code, b"an explanation")


def leads_to(url: str) -> Answer:
    return lambda handler, _: handler.send(302, b"", Location=url)


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.0)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(CONTENT, well) as running:
        yield running


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.parametrize("checksum", [{"sha256": SHA256}, {"md5": MD5.upper()}])
def test_a_whole_file_arrives(tmp_path: Path, server: Server, checksum: dict[str, Any]) -> None:
    path = download(server.url, tmp_path / "new" / "file.bin", size=len(CONTENT), **checksum)
    assert path.read_bytes() == CONTENT
    assert names(path.parent) == ["file.bin"]
    assert server.ranges == [None]


def test_a_broken_transfer_is_continued(tmp_path: Path, server: Server) -> None:
    server.script = [breaks_off, well]
    assert download(server.url, tmp_path / "file.bin", sha256=SHA256).read_bytes() == CONTENT
    assert server.ranges == [None, f"bytes={CUT}-"]
    assert server.sent == len(CONTENT)
    assert names(tmp_path) == ["file.bin"]


def test_a_later_call_continues_what_an_earlier_one_began(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TRIES", 1)
    server.script = [breaks_off, well]
    with pytest.raises(DataError, match="complete message body"):
        download(server.url, tmp_path / "file.bin", sha256=SHA256)
    assert names(tmp_path) == ["file.bin.part"]
    assert (tmp_path / "file.bin.part").read_bytes() == CONTENT[:CUT]
    download(server.url, tmp_path / "file.bin", sha256=SHA256)
    assert server.ranges == [None, f"bytes={CUT}-"]
    assert server.sent == len(CONTENT)
    assert names(tmp_path) == ["file.bin"]


def test_a_transfer_that_always_breaks_off_is_an_error_and_keeps_its_part(tmp_path: Path, server: Server) -> None:
    server.script = [breaks_off]
    with pytest.raises(DataError, match=r"file\.bin cannot be fetched: expected http.* to send it, got peer closed"):
        download(server.url, tmp_path / "file.bin", sha256=SHA256)
    assert server.ranges == [None] + [f"bytes={CUT}-"] * (module.TRIES - 1)
    assert (tmp_path / "file.bin.part").stat().st_size == CUT
    assert names(tmp_path) == ["file.bin.part"]


def test_an_unsaid_end_is_known_by_the_size(tmp_path: Path, server: Server) -> None:
    server.script = [breaks_off_unsaid, well]
    download(server.url, tmp_path / "file.bin", sha256=SHA256, size=len(CONTENT))
    assert server.ranges == [None, f"bytes={CUT}-"]
    server.script = [too_much_unsaid]
    with pytest.raises(DataError, match=f"expected {len(CONTENT)} bytes, got at least {len(CONTENT) + 4} bytes"):
        download(server.url, tmp_path / "other.bin", sha256=SHA256, size=len(CONTENT))
    assert names(tmp_path) == ["file.bin"]


@pytest.mark.parametrize("answer", [forgets_ranges, from_the_wrong_place, status(416)])
def test_a_server_that_cannot_continue_is_asked_for_all(tmp_path: Path, server: Server, answer: Answer) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:CUT])
    server.script = [answer, well]
    assert download(server.url, tmp_path / "file.bin", sha256=SHA256).read_bytes() == CONTENT
    asked: list[str | None] = [f"bytes={CUT}-"]
    assert server.ranges == (asked if answer is forgets_ranges else [*asked, None])
    assert names(tmp_path) == ["file.bin"]


def test_a_part_of_something_longer_is_thrown_away(tmp_path: Path, server: Server) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT + b"more")
    assert download(server.url, tmp_path / "file.bin", sha256=SHA256).read_bytes() == CONTENT
    assert server.ranges == [f"bytes={len(CONTENT) + 4}-", None]


def test_a_part_of_something_else_is_found_by_the_checksum(tmp_path: Path, server: Server) -> None:
    (tmp_path / "file.bin.part").write_bytes(b"something else")
    with pytest.raises(DataError, match="What was fetched is removed"):
        download(server.url, tmp_path / "file.bin", sha256=SHA256)
    assert names(tmp_path) == []
    download(server.url, tmp_path / "file.bin", sha256=SHA256)
    assert names(tmp_path) == ["file.bin"]


def test_a_complete_part_needs_no_network(tmp_path: Path, server: Server) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    assert download(server.url, tmp_path / "file.bin", md5=MD5).read_bytes() == CONTENT
    assert server.ranges == []


def test_wrong_bytes_are_an_error_with_both_checksums(tmp_path: Path, server: Server) -> None:
    server.script = [sends_others]
    got = hashlib.sha256(CONTENT[::-1]).hexdigest()
    with pytest.raises(DataError, match=rf"file\.bin\.part is not.*: expected sha256 {SHA256}, got sha256 {got}"):
        download(server.url, tmp_path / "file.bin", sha256=SHA256, size=len(CONTENT))
    assert names(tmp_path) == []
    assert len(server.ranges) == 1


def test_a_length_declared_too_long(tmp_path: Path, server: Server) -> None:
    """The checksum decides whether what came is all; a known size refuses before anything is written."""
    server.script = [says_too_much]
    assert download(server.url, tmp_path / "file.bin", sha256=SHA256).read_bytes() == CONTENT
    assert len(server.ranges) == 1
    with pytest.raises(DataError, match=f"expected {len(CONTENT)} bytes, got {len(CONTENT) + 10} bytes"):
        download(server.url, tmp_path / "other.bin", sha256=SHA256, size=len(CONTENT))
    assert names(tmp_path) == ["file.bin"]


def test_a_length_declared_too_short(tmp_path: Path, server: Server) -> None:
    server.script = [says_too_little]
    with pytest.raises(DataError, match=f"expected sha256 {SHA256}, got sha256 .*, in {len(CONTENT) - 10} bytes"):
        download(server.url, tmp_path / "file.bin", sha256=SHA256)
    with pytest.raises(DataError, match=f"expected {len(CONTENT)} bytes, got {len(CONTENT) - 10} bytes"):
        download(server.url, tmp_path / "file.bin", sha256=SHA256, size=len(CONTENT))
    assert len(server.ranges) == 2
    assert names(tmp_path) == []


@pytest.mark.parametrize(("code", "tries"), [(404, 1), (403, 1), (204, 1), (500, 4), (503, 4), (429, 4)])
def test_refusals(tmp_path: Path, server: Server, code: int, tries: int) -> None:
    server.script = [status(code)]
    with pytest.raises(DataError, match=f"got the answer {code} .*put the file at .*by hand.*EVERLEARN_DATA") as caught:
        download(server.url, tmp_path / "file.bin", sha256=SHA256)
    assert server.url in str(caught.value)
    assert str(tmp_path / "file.bin") in str(caught.value)
    assert len(server.ranges) == tries
    assert names(tmp_path) == []


def test_a_passing_failure_passes(tmp_path: Path, server: Server) -> None:
    server.script = [status(503), breaks_off, status(500), well]
    assert download(server.url, tmp_path / "file.bin", sha256=SHA256).read_bytes() == CONTENT
    assert server.ranges == [None, None, f"bytes={CUT}-", f"bytes={CUT}-"]


def test_pauses_grow(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(module, "PAUSE", 0.5)
    monkeypatch.setattr("time.sleep", pauses.append)
    server.script = [status(500)]
    with pytest.raises(DataError, match="500"):
        download(server.url, tmp_path / "file.bin", sha256=SHA256)
    assert pauses == [0.5, 1.0, 2.0]


def test_no_network(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # taken, but nobody listens
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/file.bin"
        with pytest.raises(DataError, match=r"refused.*Check the network.*put the file at .*by hand, or set"):
            download(url, tmp_path / "file.bin", sha256=SHA256)
    assert names(tmp_path) == []


def test_a_file_put_there_by_hand_is_checked_and_never_removed(tmp_path: Path, server: Server) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(CONTENT)
    download(server.url, path, sha256=SHA256)
    path.write_bytes(b"mine")
    with pytest.raises(DataError, match=f"expected sha256 {SHA256}, got .* in 4 bytes. Delete {path}"):
        download(server.url, path, sha256=SHA256)
    assert path.read_bytes() == b"mine"
    assert server.ranges == []


def test_redirections_are_followed(tmp_path: Path, server: Server) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:CUT])
    with Server(b"", leads_to(server.url)) as first:
        assert download(first.url, tmp_path / "file.bin", sha256=SHA256).read_bytes() == CONTENT
    assert server.ranges == [f"bytes={CUT}-"]
    server.script = [leads_to(server.url)]
    with pytest.raises(DataError, match="maximum allowed redirects"):
        download(server.url, tmp_path / "other.bin", sha256=SHA256)


def test_redirections_never_leave_https(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        where = {"/a": "https://b.test/b", "/b": "http://c.test/c"}
        return httpx.Response(301, headers={"Location": where[request.url.path]})

    monkeypatch.setattr(httpx, "Client", partial(httpx.Client, transport=httpx.MockTransport(answer)))
    with pytest.raises(DataError, match=r"got a redirection to http://c\.test/c"):
        download("https://a.test/a", tmp_path / "file.bin", sha256=SHA256)
    assert asked == ["https://a.test/a", "https://b.test/b"]


def test_what_is_not_safe_is_not_begun(tmp_path: Path, server: Server) -> None:
    for url, checksum in ((server.url, None), ("ftp://127.0.0.1/file.bin", MD5), ("file:///etc/hosts", MD5)):
        with pytest.raises(DataError, match="cannot be fetched safely"):
            download(url, tmp_path / "file.bin", md5=checksum)
    with pytest.raises(DataError, match=r"file\.bin cannot be fetched"):
        download("http://127.0.0.1:port/", tmp_path / "file.bin", md5=MD5)
    assert server.ranges == []
    assert names(tmp_path) == []


def test_a_full_disk_keeps_the_part_only(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(DataError, match=r"file\.bin\.part \(No space left on device\)"):
            download(server.url, tmp_path / "file.bin", sha256=SHA256)
    assert names(tmp_path) == ["file.bin.part"]
    download(server.url, tmp_path / "file.bin", sha256=SHA256)
    assert names(tmp_path) == ["file.bin"]


def test_two_at_once_fetch_once(tmp_path: Path, server: Server) -> None:
    arrived = threading.Event()

    def slowly(handler: Handler, content: bytes) -> None:
        arrived.wait(0.2)  # long enough for the others to come
        well(handler, content)

    server.script = [slowly]
    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(download, server.url, tmp_path / "file.bin", sha256=SHA256) for _ in range(3)]
        assert all(call.result().read_bytes() == CONTENT for call in calls)
    assert len(server.ranges) == 1
    assert names(tmp_path) == ["file.bin"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_on_a_terminal_only(
    tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    download(server.url, tmp_path / "a.bin", sha256=SHA256)
    assert capsys.readouterr() == ("", "")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    download(server.url, tmp_path / "b.bin", sha256=SHA256, progress=False)
    assert terminal.getvalue() == ""
    (tmp_path / "c.bin.part").write_bytes(CONTENT[:CUT])
    download(server.url, tmp_path / "c.bin", sha256=SHA256)
    assert re.search(r"c\.bin:  65%", terminal.getvalue())  # 200,000 of 307,200 were there
    assert re.search(r"c\.bin: 100%.*300k/300k.*B/s\]", terminal.getvalue())
