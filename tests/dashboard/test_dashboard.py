"""The live page: a real server, a real browser, and files that grow, break and vanish while it looks."""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from everlearn._kit.lines import last_line, opened
from everlearn.dashboard import entry as entries
from everlearn.dashboard import locks
from everlearn.dashboard.details import Details
from everlearn.dashboard.entry import RunEntry
from everlearn.dashboard.table import Table
from everlearn.errors import EverlearnError
from tests import report_toys as toys

if TYPE_CHECKING:
    from playwright.sync_api import Dialog, Page

SIZES = (4, 3, 3)
EDGES = [10.0**k for k in range(-6, 1)]
ALIVE = 15_000  # milliseconds for what appears within two seconds on an idle machine


def record(strategy: str, run: int, i: int, benchmark: str = "digits", **other: Any) -> dict[str, Any]:
    """A record whose every picture differs from batch to batch."""
    counts = [0, i, 10 * i, 100, 5, i + run]
    return toys.toy_record(benchmark, strategy, run, i, SIZES) | {
        "importance": {
            "edges": EDGES,
            "counts": counts,
            "zero": 0.1 * i,
            "saturated": 0.01 * i,
            "F": {"edges": EDGES, "counts": [*counts[1:], i], "zero": 0.1, "max": 0.5},
        },
        "change": {"conv1": 1e-3 / i, "conv2": 2e-3 * i, "fc": 3e-3},
        "forgetting": None if i == 1 else 0.05 * i,
        **other,
    }


def event(i: int, step: int, steps: int = 40, **other: Any) -> dict[str, Any]:
    known = {"i": i, "epoch": 1 + step // 10, "epochs": 4, "step": step, "steps": steps}
    return {**known, "loss": 2.0 / step, "eta": 0.01, "images_per_second": 600.0 + step, **other}


def line(value: dict[str, Any]) -> str:
    return json.dumps(value) + "\n"


def write(folder: Path, strategy: str = "ar1", run: int = 1, upto: int = 3, **config: Any) -> list[dict[str, Any]]:
    """A run's folder; gives its records."""
    folder.mkdir(parents=True, exist_ok=True)
    made = [record(strategy, run, i, config.get("benchmark", "digits")) for i in range(1, upto + 1)]
    known = {"benchmark": "digits", "strategy": strategy, "run": run, **config}
    (folder / "config.json").write_text(json.dumps({**toys.toy_config("digits", strategy, run, SIZES), **known}))
    (folder / "records.jsonl").write_text("".join(map(line, made)))
    steps = [event(i, step) for i in range(1, upto + 1) for step in range(5, 41, 5)]
    (folder / "events.jsonl").write_text("".join(map(line, steps)))
    return made


def add(path: Path, text: str) -> None:
    with open(path, "a") as file:
        file.write(text)


def age(folder: Path, seconds: float) -> None:
    for path in folder.iterdir():
        os.utime(path, (time.time() - seconds,) * 2)


def rows(table: Table) -> dict[str, dict[str, Any]]:
    table.scan()
    found = table.changes(None)
    assert found is not None
    return {row["place"]: row for row in found["runs"]}


# --- files ------------------------------------------------------------------------------------------


def test_pipes_and_links_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "secret").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    for name in ("pipe", "link"):
        with pytest.raises(OSError, match=r"regular|symbolic"):
            opened(tmp_path / name)
    root = tmp_path / "runs"
    write(root / "real")
    write(tmp_path / "outside", run=2)
    (root / "linked").symlink_to(tmp_path / "outside")
    (root / "loop").symlink_to(root)
    (root / "bad").mkdir()
    (root / "bad" / "records.jsonl").symlink_to(tmp_path / "outside" / "records.jsonl")
    os.mkfifo(root / "bad" / "config.json")
    assert list(rows(Table(root))) == ["real"]


# --- what a run is doing ----------------------------------------------------------------------------


def test_a_run_that_fails_to_be_read_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in "abc":
        write(tmp_path / name)
    usual = RunEntry.update

    def update(entry: RunEntry, *what: Any) -> bool:
        if entry.place == "b":
            raise RecursionError
        return usual(entry, *what)

    monkeypatch.setattr(RunEntry, "update", update)
    assert list(rows(Table(tmp_path))) == ["a", "c"]
    assert "b cannot be looked at" in caplog.text


def test_a_lock_tells_who_learns_and_is_never_touched(tmp_path: Path) -> None:
    write(tmp_path / "run", upto=2)
    age(tmp_path / "run", 900)
    table = Table(tmp_path)
    assert rows(table)["run"]["status"] == "stopped"  # never seen held, and no news for a quarter of an hour
    with open(tmp_path / "run" / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not locks.is_held(os.stat(tmp_path / "run" / "lock"), locks.held()):
            pytest.skip("this system does not list its locks")
        assert [rows(table)["run"][name] for name in ("status", "held")] == ["learning", True]
    row = rows(table)["run"]
    assert [row[name] for name in ("status", "held", "was_held")] == ["stopped", False, True]
    with open(tmp_path / "run" / "lock", "w") as file:  # free, and was so throughout
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert rows(table)["run"]["status"] == "learning"  # it goes on


def test_without_locks_the_age_of_news_decides(tmp_path: Path) -> None:
    for name, seconds, upto in (("new", 2, 2), ("quiet", 60, 2), ("dead", 400, 2), ("done", 4000, 3)):
        write(tmp_path / name, upto=upto)
        age(tmp_path / name, seconds)
    write(tmp_path / "few", upto=2, batches=2)
    found = {place: row["status"] for place, row in rows(Table(tmp_path)).items()}
    assert found == {"new": "learning", "quiet": "quiet", "dead": "stopped", "done": "finished", "few": "finished"}


def test_rate_and_time_left_by_hand(tmp_path: Path) -> None:
    """B_2 took 3 + 1 s; of B_3's 40 steps, 10 were made in the last 5 s: 2 a second, and 20 left: 10 s. B_4: 4 s."""
    folder = tmp_path / "run"
    write(folder, upto=0)
    two: dict[str, Any] = {
        "of": 4,
        "batches": [[0, 1, 2, 3], [4, 5, 6], [7], [8, 9]],
        "seconds_train": 3.0,
        "seconds_eval": 1.0,
    }
    (folder / "records.jsonl").write_text("".join(line(record("ar1", 1, i, **two)) for i in (1, 2)))
    table, now = Table(tmp_path), time.time()
    for seconds, step in ((5, 10), (0, 20)):
        add(folder / "events.jsonl", line(event(3, step)))
        os.utime(folder / "events.jsonl", (now - seconds,) * 2)
        row = rows(table)["run"]
    assert (row["done"], row["planned"], row["status"]) == (2, 4, "learning")
    assert row["step"]["images_per_second"] == 620.0
    assert (row["left_batch"], row["left"]) == (pytest.approx(10), pytest.approx(14))


# --- the list and the details -------------------------------------------------------------------------


def test_a_scan_reads_only_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for run in range(1, 21):
        write(tmp_path / f"{run}", run=run)
    read: list[str] = []

    def counted(path: Path, block: int = 1 << 15) -> bytes | None:
        read.append(f"{path.parent.name}/{path.name}")
        return last_line(path, block)

    monkeypatch.setattr(entries, "last_line", counted)
    table = Table(tmp_path)
    table.scan()
    assert len(read) == 20  # records only: finished runs have no step to tell of
    first = table.changes(None)
    assert first is not None
    assert len(first["runs"]) == 20
    read.clear()
    table.scan()
    assert read == []
    assert table.changes(first["tag"]) is None
    write(tmp_path / "new", run=21, upto=1)
    shutil.rmtree(tmp_path / "7")
    table.scan()
    assert sorted(read) == ["new/events.jsonl", "new/records.jsonl"]
    then = table.changes(first["tag"])
    assert then is not None
    assert ([row["place"] for row in then["runs"]], len(then["gone"]), then["whole"]) == (["new"], 1, False)
    again = table.changes("other.3")
    assert again is not None
    assert (again["whole"], len(again["runs"])) == (True, 20)


def test_details_follow_a_run_that_goes_on_and_one_written_anew(tmp_path: Path) -> None:
    made = write(tmp_path, upto=1)
    details = Details(RunEntry(tmp_path, "run"), lambda _: [{"text": "look"}])
    first = details.records(-1, -1)
    assert ([one["i"] for one in first["records"]], first["alarms"]) == ([1], [{"text": "look"}])
    assert first["records"][0]["confusion"] == made[0]["confusion"]
    assert first["stream"]["arrived"] == (4, 7, 10)
    text = line(record("ar1", 1, 2))
    add(tmp_path / "records.jsonl", text[:40])
    assert details.records(first["generation"], 1)["records"] == []
    add(tmp_path / "records.jsonl", text[40:])
    assert [one["i"] for one in details.records(first["generation"], 1)["records"]] == [2]
    (tmp_path / "records.jsonl").write_text(line(record("ar1", 1, 1, accuracy=0.125)))
    anew = details.records(first["generation"], 2)
    assert (anew["after"], anew["generation"] > first["generation"]) == (0, True)
    assert [one["accuracy"] for one in anew["records"]] == [0.125]


@pytest.mark.parametrize(
    "text",
    [
        '{"benchmark": "x"}',
        "[1]",
        "[" * 100_000,
        json.dumps(record("ar1", 1, 2, confusion=[[1]])),
        json.dumps(record("ar1", 1, 2, accuracy=float("nan"))),
        json.dumps(record("ar1", 1, 2, importance={"edges": [1, 0], "counts": [1], "zero": 0, "saturated": 0})),
        json.dumps(record("ar1", 1, 2, importance=record("ar1", 1, 2)["importance"] | {"F": {"edges": [1]}})),
        json.dumps(record("ar1", 1, 2, change={"fc": "much"})),
    ],
)
def test_lines_that_are_no_records_are_told_and_left_out(tmp_path: Path, text: str) -> None:
    write(tmp_path, upto=1)
    add(tmp_path / "records.jsonl", text + "\n")
    details = Details(RunEntry(tmp_path, "run"), lambda _: [])
    found = details.records(-1, -1)
    assert [one["i"] for one in found["records"]] == [1]
    assert "records.jsonl" in found["problem"] or "importance" in found["problem"]
    json.dumps([found, details.raw()], allow_nan=False)


def test_steps_are_thinned_to_logged_ones(tmp_path: Path) -> None:
    write(tmp_path, upto=0)
    add(tmp_path / "events.jsonl", "".join(line(event(1, step, 5000)) for step in range(1, 4001)))
    add(tmp_path / "events.jsonl", line(event(2, 1, loss=float("nan"))) + "{half")
    details = Details(RunEntry(tmp_path, "run"), lambda _: [])
    found = details.steps(1)["points"]
    assert (len(found) <= 600, found[-1][0]) == (True, 4000)
    assert all(one[2] == 2.0 / one[0] for one in found)
    assert details.steps(2)["points"] == [[1, 1, None, 0.01, 601.0]]


# --- the server ---------------------------------------------------------------------------------------


@contextmanager
def serving(root: Path, *options: str) -> Iterator[str]:
    """A server of its own; gives the address that it printed. Its errors are the test's."""
    command = [sys.executable, "-W", "error", "-m", "everlearn", "dashboard", str(root), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            address = process.stdout.readline().strip()
            if not address:
                raise EverlearnError(process.stderr.read())
            yield address
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=20)
            assert (process.returncode, errors.splitlines()[1:]) == (0, [])
        finally:
            process.kill()


def test_who_may_see_it(tmp_path: Path) -> None:
    write(tmp_path / "run")
    with serving(tmp_path) as address:
        port = httpx.URL(address).port
        assert address == f"http://127.0.0.1:{port}/"
        got = httpx.get(address)
        assert (got.status_code, got.headers["x-frame-options"]) == (200, "DENY")
        policy = got.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "", "[::1].evil.example"[5:]):
            assert httpx.get(f"{address}api/runs", headers={"host": host}).status_code in {400, 421}, host
        for host in ("localhost", f"127.0.0.1:{port}", f"[::1]:{port}"):
            assert httpx.get(f"{address}api/runs", headers={"host": host}).status_code == 200
        assert httpx.post(f"{address}api/runs").status_code == 405
        (run,) = httpx.get(f"{address}api/runs").json()["runs"]
        for path in (
            "api/runs/..%2f..%2frun",
            "api/runs/run",
            "page/..%2fserver.py",
            "page/%2fetc%2fpasswd",
            "page/x.js",
        ):
            assert httpx.get(f"{address}{path}").status_code == 404, path
        (alarm,) = httpx.get(f"{address}api/runs/{run['id']}?after=-1&generation=x").json()["alarms"]
        assert (alarm["level"], "the pull overshoots" in alarm["text"]) == ("red", True)  # 0.01 · 15,000 · 0.1 = 15
        tag = httpx.get(f"{address}page/main.js").headers["etag"]
        assert httpx.get(f"{address}page/main.js", headers={"if-none-match": tag}).status_code == 304


def test_elsewhere_it_demands_a_token(tmp_path: Path) -> None:
    write(tmp_path / "run")
    with serving(tmp_path, "--host", "0.0.0.0") as printed:
        url = httpx.URL(printed)
        token, address = url.params["token"], f"http://127.0.0.1:{url.port}/"
        assert len(token) > 40
        for path in ("", "api/runs", "page/main.js", "?token=wrong", f"api/runs?token={token}", "?token=%ff"):
            assert httpx.get(address + path).status_code == 401, path
        for bearer in ("Bearer", "Bearer wrong", f"Basic {token}", f"Bearer {token}x"):
            assert httpx.get(address, headers={"authorization": bearer}).status_code == 401
        assert httpx.get(f"{address}api/runs", headers={"authorization": f"Bearer {token}"}).status_code == 200
        with httpx.Client(base_url=address) as client:
            first = client.get("/", params={"token": token})
            assert (first.status_code, first.headers["location"]) == (303, "/")
            assert re.search(r"HttpOnly;.*SameSite=strict", first.headers["set-cookie"])
            assert client.get("/api/runs").status_code == 200
    with pytest.raises(EverlearnError, match="A short token"), serving(tmp_path, "--token", "abc"):
        pass


def test_calls_that_make_no_sense_are_explained(tmp_path: Path) -> None:
    from everlearn.dashboard import serve

    with pytest.raises(EverlearnError, match=r"nothing to watch .* expected a folder"):
        serve(tmp_path / "none")
    with pytest.raises(EverlearnError, match="A bad port: expected 0 to 65535, got 70000"):
        serve(tmp_path, port=70_000)
    with serving(tmp_path) as address, pytest.raises(EverlearnError, match=r"cannot be served there.*Choose another"):
        serve(tmp_path, port=httpx.URL(address).port or 0)
    code = "import sys, everlearn.dashboard; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_who_knows_the_address_may_stop_it(tmp_path: Path) -> None:
    code = """
import signal, sys
from pathlib import Path
from everlearn.dashboard import serve

def ready(url):
    print("raises" if signal.getsignal(signal.SIGINT) is signal.default_int_handler else "is handled")
    signal.raise_signal(signal.SIGINT)

serve(Path(sys.argv[1]), port=0, ready=ready)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "is handled\n", "")


# --- the page -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator["toys.Browser"]:
    with toys.chromium() as browser:
        yield browser


@contextmanager
def showing(browser: "toys.Browser", address: str, width: int = 1280, **settings: Any) -> Iterator["Page"]:
    """The page in a window. What the console says, a dialogue, and a request to anyone else are failures."""
    context = browser.new_context(viewport={"width": width, "height": 900}, **settings)
    page, heard = context.new_page(), list[str]()

    def dismiss(dialog: "Dialog") -> None:
        heard.append(dialog.message)
        dialog.dismiss()

    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("dialog", dismiss)
    page.on("websocket", lambda socket: heard.append(socket.url))
    page.on("request", lambda request: asked.append(request.url))
    asked: list[str] = []
    page.goto(address)
    page.wait_for_selector("#link[data-state=live]", timeout=ALIVE)
    yield page
    own = (address.partition("?")[0], f"blob:{address}"[:-1], "data:image/png")
    assert (heard, [url for url in asked if not url.startswith(own)]) == ([], [])
    context.close()


def until(page: "Page", what: str, argument: Any = None) -> None:
    page.wait_for_function(what, arg=argument, timeout=ALIVE)


def cell(page: "Page", metric: str, run: int = 0) -> str | None:
    found: str | None = page.locator(f"#progress td[data-metric={metric}]").nth(run).get_attribute("data-value")
    return found


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, list[dict[str, Any]]]]]:
    """Three finished runs, and a page that shows them."""
    root = tmp_path_factory.mktemp("three")
    made = {name: write(root / name, name, k) for k, name in enumerate(("ar1", "ewc", "naive"), start=1)}
    with serving(root) as address:
        yield address, made


Three = tuple[str, dict[str, list[dict[str, Any]]]]
SEEN = """() => ({
  where: document.getElementById("where").textContent,
  marker: document.querySelector("#seen .marker").dataset.batch,
  line: document.querySelector("#fixed .marker").getAttribute("d"),
  loss: document.getElementById("loss").dataset.batch,
  matrices: [...document.querySelectorAll("#confusion .drawing svg")].map((one) => one.dataset.batch),
  images: [...document.querySelectorAll("#confusion image")].map((one) => one.getAttribute("href")),
  bars: [...document.querySelectorAll("#change canvas")].map((one) => one.dataset.batch),
  space: [...document.querySelectorAll("#change canvas")].map((one) => one.toDataURL()),
  weights: [...document.querySelectorAll("#importance .drawing svg")].map((one) => one.dataset.batch),
  raw: [...document.querySelectorAll("#importance .raw")].map((one) => one.getAttribute("d")).join(),
  heights: [...document.querySelectorAll("#importance rect")].map((one) => one.getAttribute("height")).join(),
})"""


def test_the_slider_moves_everything_and_numbers_are_the_records(three: Three, browser: "toys.Browser") -> None:
    address, made = three
    with showing(browser, address) as page:
        until(page, "() => document.querySelectorAll('#confusion .drawing svg').length === 3")
        page.locator("#batch").focus()
        before: dict[str, Any] = {}
        for key, i in (("Home", 1), ("ArrowRight", 2), ("End", 3)):
            page.keyboard.press(key)
            until(page, "(i) => document.getElementById('loss').dataset.batch === i", str(i))
            now = page.evaluate(SEEN)
            assert (now["where"], now["marker"], now["loss"]) == (f"{i} of 3", str(i), str(i))
            assert now["matrices"] == now["bars"] == now["weights"] == [str(i)] * 3
            moved = ("line", "images", "space", "heights", "raw")
            assert all(now[name] != before.get(name) for name in moved)
            before = now
            for k, records in enumerate(made.values()):
                for metric in ("accuracy", "accuracy_seen", "seconds_train"):
                    assert float(cell(page, metric, k) or "nan") == records[i - 1][metric]
                text = page.locator("#progress td[data-metric=accuracy_seen]").nth(k).inner_text()
                assert text == f"{100 * records[i - 1]['accuracy_seen']:.1f}"
                label = page.locator("#confusion .drawing svg").nth(k).get_attribute("aria-label") or ""
                right = sum(row[c] for c, row in enumerate(records[i - 1]["confusion"]))
                assert f"{right} in all" in label
                for layer, value in records[i - 1]["change"].items():
                    found = page.locator(f"#change td[data-layer={layer}]").nth(k).get_attribute("data-value")
                    assert float(found or "nan") == value
            assert f"zero {10 * i} %" in page.locator("#importance .after").first.inner_text()
            until(page, "(i) => document.querySelector('#loss svg')?.ariaLabel?.includes('0.05 at step 40')", str(i))
        assert "AR1 1: In B_2 and B_3, the pull overshoots" in page.locator("#look").inner_text()
        assert not page.evaluate("document.getElementById('follow').checked") or now["where"] == "3 of 3"
        page.locator("#batch").press("Home")
        page.reload()  # the address keeps the selection and the batch
        until(page, "() => document.getElementById('where').textContent === '1 of 3'")


def test_any_selection_is_compared_by_keyboard(three: Three, browser: "toys.Browser") -> None:
    with showing(browser, three[0]) as page:
        until(page, "() => document.querySelectorAll('#progress tbody tr').length === 3")
        page.locator("#filter").fill("ewc")
        assert page.locator("#list li:visible").count() == 1
        page.locator("#filter").press("Tab")
        for _ in range(3):
            page.keyboard.press("Tab")
        page.keyboard.press("Space")  # the box of the only run that is listed
        until(page, "() => document.querySelectorAll('#confusion figure').length === 2")
        assert page.locator("#progress tbody th").all_inner_texts() == ["AR1 1", "Naive 3"]
        page.locator("#pick-none").press("Enter")
        until(page, "() => !document.getElementById('empty').hidden")
        assert page.locator("#panels").is_hidden()


def test_the_space_is_turned_by_keys_mouse_finger_and_buttons(three: Three, browser: "toys.Browser") -> None:
    with showing(browser, three[0], has_touch=True) as page:
        until(page, "() => document.querySelectorAll('#change canvas').length === 3")
        canvas = page.locator("#change canvas").first
        look = "(one) => [Number(one.dataset.turn), Number(one.dataset.tilt), one.toDataURL()]"
        seen = [canvas.evaluate(look)]
        canvas.focus()
        for key in ("ArrowLeft", "ArrowUp"):
            page.keyboard.press(key)
            seen.append(canvas.evaluate(look))
        assert seen[1][0] < seen[0][0]
        assert seen[2][1] > seen[1][1]
        page.keyboard.press("0")
        assert canvas.evaluate(look) == seen[0]
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        assert box is not None
        x, y = box["x"] + 100, box["y"] + 100
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 60, y + 20, steps=3)
        page.mouse.up()
        seen.append(canvas.evaluate(look))
        touch = page.context.new_cdp_session(page)
        for kind, points in (("Start", [x]), ("Move", [x + 20]), ("Move", [x + 70]), ("Move", [x + 90]), ("End", [])):
            known = [{"x": at, "y": y} for at in points]
            touch.send("Input.dispatchTouchEvent", {"type": f"touch{kind}", "touchPoints": known})
        seen.append(canvas.evaluate(look))
        page.get_by_role("button", name="Tilt up").click()
        seen.append(canvas.evaluate(look))
        assert len({image for _, _, image in seen}) == len(seen)
        others = page.locator("#change canvas").evaluate_all("(all) => all.map((one) => one.dataset.turn)")
        assert len(set(others)) == 1  # all runs together


def test_what_is_seen_is_saved(three: Three, browser: "toys.Browser", tmp_path: Path) -> None:
    address, made = three

    def saved(page: "Page", name: str) -> bytes:
        with page.expect_download(timeout=ALIVE) as coming:
            page.get_by_role("button", name=name, exact=True).click()
        return Path(coming.value.path()).read_bytes()

    with showing(browser, address) as page:
        until(page, "() => document.querySelectorAll('#confusion .drawing svg').length === 3")
        rows_ = saved(page, "Accuracy on all classes as CSV").decode().splitlines()
        assert len(rows_) == 10
        assert float(rows_[1].split(",")[-1]) == made["ar1"][0]["accuracy"]
        for title in (
            "Accuracy on the classes seen",
            "Confusion",
            "How far the weights moved",
            "Importance of the weights",
        ):
            text = saved(page, f"{title} as SVG").decode()
            assert text.startswith("<svg ")
            assert "AR1 1" in text
        assert saved(page, "How far the weights moved as PNG").startswith(b"\x89PNG\r\n")
        assert len(saved(page, "Confusion as CSV").splitlines()) > 30
        found = json.loads(saved(page, "Records as JSON"))
        assert [one["records"] for one in found["runs"]] == list(made.values())


def test_a_growing_run_appears_and_a_deleted_one_goes(browser: "toys.Browser", tmp_path: Path) -> None:
    with serving(tmp_path) as address, showing(browser, address) as page:
        assert page.locator("#empty").inner_text().startswith("No run yet.")
        made, seen = write(tmp_path / "run", upto=0), threading.Event()

        def learn() -> None:
            for i in (1, 2, 3):
                for step in (10, 20, 40):
                    text = line(event(i, step))
                    add(tmp_path / "run" / "events.jsonl", text[:30])
                    time.sleep(0.15)
                    add(tmp_path / "run" / "events.jsonl", text[30:])
                assert i != 2 or seen.wait(60)  # the page has seen it at work
                text = line(record("ar1", 1, i))
                made.append(json.loads(text))
                add(tmp_path / "run" / "records.jsonl", text[:500])
                time.sleep(0.9)  # a scan or two meet half a line
                add(tmp_path / "run" / "records.jsonl", text[500:])

        thread = threading.Thread(target=learn)
        thread.start()
        until(page, "() => document.querySelector('#progress [data-metric=at]')?.textContent.startsWith('B₂ of 3')")
        seen.set()
        until(page, "() => Number(document.querySelector('#progress [data-metric=rate]').dataset.value) >= 610")
        until(page, "() => document.querySelector('#loss svg')?.ariaLabel.includes('Loss within batch')")
        until(page, "() => document.querySelector('#progress tr[data-status=finished]') !== null")
        thread.join()
        until(
            page,
            "(x) => document.querySelector('[data-metric=accuracy]').dataset.value === x",
            str(made[2]["accuracy"]),
        )
        assert page.evaluate(SEEN)["matrices"] == ["3"]
        (tmp_path / "run" / "records.jsonl").write_text(line(made[0]))  # begun anew
        until(
            page,
            "(x) => document.querySelector('[data-metric=accuracy]').dataset.value === x",
            str(made[0]["accuracy"]),
        )
        shutil.rmtree(tmp_path / "run")
        until(page, "() => !document.querySelector('#list li') && !document.getElementById('empty').hidden")


def test_a_real_run_is_followed_until_it_is_killed(browser: "toys.Browser", tmp_path: Path) -> None:
    command = [sys.executable, "-m", "everlearn", "run", "--benchmark", "digits", "--strategy", "ar1", "--run", "1"]
    knobs = ["--set", "training.first.epochs=1", "--set", "training.later.epochs=1500", "--out", str(tmp_path / "run")]
    with serving(tmp_path) as address, showing(browser, address) as page:
        run = subprocess.Popen([*command, *knobs])
        try:
            page.wait_for_function(
                "() => document.querySelector('#progress [data-metric=at]')?.textContent.startsWith('B₂')",
                timeout=60_000,
            )
            until(page, "() => Number(document.querySelector('#progress [data-metric=rate]').dataset.value) > 0")
            until(page, "() => Number(document.querySelector('#progress [data-metric=left]').dataset.value) > 0")
            until(
                page,
                "() => document.querySelector('#progress tr').parentNode && document.title.startsWith('1 learning')",
            )
            assert page.locator("#progress tbody tr").get_attribute("data-status") == "learning"
            first = json.loads((tmp_path / "run" / "records.jsonl").read_text().splitlines()[0])
            until(page, "() => document.querySelector('[data-metric=accuracy]').dataset.value !== undefined")
            assert float(cell(page, "accuracy") or "nan") == first["accuracy"]
            assert page.evaluate(SEEN)["matrices"] == ["1"]
            run.send_signal(signal.SIGKILL)
            if locks.held() is None:
                return  # only its age would tell, in five minutes
            until(page, "() => document.querySelector('#progress tbody tr').dataset.status === 'stopped'")
            assert "stopped after 1 batch of 4" in page.locator("#look").inner_text()
        finally:
            run.kill()
            run.wait()


def many_runs(root: Path, n: int) -> None:
    """Runs of the size of mini50's, written quickly."""
    sizes = toys.BENCHMARKS["mini50"]
    for k in range(n):
        strategy = toys.STRATEGIES[k % len(toys.STRATEGIES)]
        if k < len(toys.STRATEGIES):
            made = [line(toys.toy_record("mini50", strategy, 1, i, sizes)) for i in range(1, 10)]
            (root / strategy).mkdir()
            (root / strategy / "text").write_text("".join(made))
        folder = root / strategy / f"run-{k}"
        folder.mkdir()
        text = (root / strategy / "text").read_text().replace('"run": 1,', f'"run": {k},')
        (folder / "records.jsonl").write_text(text)
        (folder / "events.jsonl").write_text(line(event(9, 40)))
        (folder / "config.json").write_text(json.dumps(toys.toy_config("mini50", strategy, k, sizes)))


def crowded() -> float:
    """How much longer than alone a busy process takes here and now: 1 on an idle machine."""
    wall, busy = time.perf_counter(), time.process_time()
    while time.process_time() - busy < 0.2:
        pass
    return (time.perf_counter() - wall) / (time.process_time() - busy)


def test_500_runs_are_painted_within_two_seconds(browser: "toys.Browser", tmp_path: Path) -> None:
    """From a cold server. Two seconds are meant for a machine of our own: where others work on it too, as many times
    longer as a busy process takes there, measured before and after. The best of three counts."""
    many_runs(tmp_path, 500)
    tries = []
    for _ in range(3):
        before = crowded()
        with serving(tmp_path) as address, showing(browser, address) as page:
            until(page, "() => performance.getEntriesByName('everlearn-list').length === 1")
            when = "(name) => performance.getEntriesByName(name)[0].startTime"
            painted = max(page.evaluate(when, name) for name in ("first-contentful-paint", "everlearn-list"))
            tries.append((painted / ((before + crowded()) / 2), painted))
            assert page.locator("#list li").count() == 500
            answer = httpx.get(f"{address}api/runs", headers={"accept-encoding": "gzip"})
            assert len(answer.json()["runs"]) == 500
            assert int(answer.headers["content-length"]) < 100_000
            assert httpx.get(f"{address}api/runs", params={"since": answer.json()["tag"]}).status_code == 204
        if tries[-1][0] < 2000:
            break
    assert min(tries)[0] < 2000, f"milliseconds, without and with the others' share: {tries}"


def test_nothing_in_a_record_is_obeyed(browser: "toys.Browser", tmp_path: Path) -> None:
    long, turned = "x" * 10_000, "\u202egnp.exe"
    names = [*toys.HOSTILE, long, turned, "=cmd|' /C calc'!A0", "__proto__", "{{7*7}}"]
    for k, name in enumerate(names):
        folder = tmp_path / f"{k}"
        knobs = {name: name}
        write(
            folder, name, k, 2, benchmark=name, class_names=names + [name] * 4, network=name, command=name, knobs=knobs
        )
        made = [record(name, k, i, name, change={name: 0.5, "__proto__": 0.1}) for i in (1, 2)]
        (folder / "records.jsonl").write_text("".join(map(line, made)))
    with suppress(OSError):
        write(tmp_path / '"><img src=x onerror=alert(3)>' / "<b>", run=77)
    with serving(tmp_path) as address, showing(browser, address) as page:
        until(page, "(n) => document.querySelectorAll('#list li').length >= n", len(names))
        for box in page.locator("#list input").all():
            box.check()
        until(page, "(n) => document.querySelectorAll('#confusion .drawing svg').length >= n", len(names))
        assert page.locator("script").count() == 1
        assert page.locator("img, b:not(.alarms b), #list style, main style, [onerror]").count() == 0
        assert "\u202e" not in page.content()
        assert "<script>alert(1)</script> 0" in page.locator("#progress tbody th").all_inner_texts()
        assert page.evaluate("document.documentElement.scrollWidth") == 1280
        assert max(len(text) for text in page.locator("#list .name").all_inner_texts()) <= 120


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)])
def test_everyone_can_use_it(three: Three, browser: "toys.Browser", scheme: Any, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    settings: dict[str, Any] = {"color_scheme": scheme, "reduced_motion": "reduce", "bypass_csp": True}
    with showing(browser, three[0], width, **settings) as page:
        until(page, "() => document.querySelectorAll('#importance .drawing svg').length === 3")
        if width == 390:
            page.locator("#runs summary").press("Enter")
        page.locator("#change summary").press("Enter")
        found = axe.Axe().run(page).response["violations"]
        assert [(one["id"], one["impact"], one["nodes"][0]["html"][:200]) for one in found] == []
        assert page.evaluate("document.documentElement.scrollWidth") == width
        page.locator("#batch").focus()
        assert page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle") == "solid"
        moves = "(all) => all.map((one) => getComputedStyle(one).transitionDuration)"
        assert set(page.locator(".meter rect").evaluate_all(moves)) == {"0s"}


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + ALIVE / 1000
    while not what():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_server_that_goes_and_comes_is_told(browser: "toys.Browser", tmp_path: Path) -> None:
    write(tmp_path / "run")
    with serving(tmp_path) as address:
        context = browser.new_context()
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector("#link[data-state=live]", timeout=ALIVE)
        unsafe = "() => { try { document.body.innerHTML = '<b>'; return 'obeyed'; } catch { return 'refused'; } }"
        assert page.evaluate(unsafe) == "refused"  # nothing on this page can become markup, not by mistake either
    page.wait_for_selector("#link[data-state=lost]", timeout=ALIVE)
    assert "does not answer" in page.locator("#link").inner_text()
    with serving(tmp_path, "--port", str(httpx.URL(address).port)):
        page.wait_for_selector("#link[data-state=live]", timeout=2 * ALIVE)
        wait_for(lambda: page.locator("#list li").count() == 1)
    context.close()
