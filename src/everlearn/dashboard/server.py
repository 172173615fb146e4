"""The server: a few addresses that give JSON, and the page's own files.

Starlette and uvicorn, rather than the standard library's http.server, whose manual advises against it wherever others
can reach it, and this page may be bound to a network's address: uvicorn parses with h11, limits headers and idle
connections, and keeps connections open for a page that asks once a second. The page asks (polls) and is told what
changed since the tag it has, or "nothing" (204): that survives sleeping laptops and proxies, and holds no thread.
"""

import json
import os
import re
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from everlearn.dashboard.details import Alarms, Details, Shelf, alarms_of
from everlearn.dashboard.guard import Guard, is_loopback
from everlearn.dashboard.table import Table, Watch
from everlearn.errors import ConfigError, RunError, sentence
from everlearn.records import names
from everlearn.report.colours import colours

MOST = 24
"""Runs that are compared at a time."""

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
SHORTEST_TOKEN = 16


def make_app(
    folder: Path, *, loopback: bool = True, token: str | None = None, port: int = 0, alarms: Alarms = alarms_of
) -> Starlette:
    """The application. loopback: refuse foreign Host headers; port: tells the cookies of two pages apart."""
    table = Table(folder)
    watch, shelf, assets = Watch(table), Shelf(alarms), _assets()

    @asynccontextmanager
    async def life(_app: Starlette) -> AsyncIterator[None]:
        watch.start()
        yield
        watch.stop()

    async def asset(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in assets:
            return Response(status_code=404)
        body, tag = assets[name]
        headers = {"etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(body, media_type=TYPES[Path(name).suffix], headers=headers)

    def changes(request: Request) -> Response:
        watch.ask()
        found = table.changes(request.query_params.get("since"))
        return Response(status_code=204) if found is None else _json(found)

    def of_run(give: Callable[[Details, Request], Any]) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            entry = table.entry(request.path_params["id"])
            return Response(status_code=404) if entry is None else _json(give(shelf.of(entry), request))

        return answer

    def export(request: Request) -> Response:
        asked = request.query_params.get("runs", "").split(",")[:MOST]
        found = [shelf.of(entry).raw() for one in asked if (entry := table.entry(one)) is not None]
        return _json({"folder": table.root.name, "runs": found})

    def endpoint(answer: Callable[[Request], Response]) -> Callable[[Request], Any]:
        async def asked(request: Request) -> Response:
            return await run_in_threadpool(answer, request)

        return asked

    records = of_run(lambda one, request: one.records(_whole(request, "generation"), _whole(request, "after")))
    steps = of_run(lambda one, request: one.steps(_whole(request, "i")))
    guard = Middleware(Guard, loopback=loopback, token=token, cookie=f"everlearn-{port}")
    return Starlette(
        routes=[
            Route("/", asset),
            Route("/page/{name}", asset),
            Route("/api/runs", endpoint(changes)),
            Route("/api/runs/{id}", endpoint(records)),
            Route("/api/runs/{id}/steps", endpoint(steps)),
            Route("/api/export", endpoint(export)),
        ],
        middleware=[guard, Middleware(GZipMiddleware, minimum_size=2000, compresslevel=3)],
        lifespan=life,
    )


def _whole(request: Request, name: str) -> int:
    text = request.query_params.get(name, "")
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else -1


def _json(value: object) -> Response:
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "replace"), media_type="application/json")


def _assets() -> dict[str, tuple[bytes, str]]:
    """The page's files by name, with their tags. Colours and names are the report's."""
    folder = files("everlearn.dashboard") / "page"
    found = {one.name: one.read_bytes() for one in folder.iterdir() if Path(one.name).suffix in TYPES}
    style = (files("everlearn.report") / "style.css").read_text(encoding="utf-8")
    found["colours.css"] = style.split("\n* {")[0].encode()
    constants = {"SCALE": colours().tolist(), "DASHES": names.DASHES, "MARKERS": names.MARKERS, "MOST": MOST}
    lines = [f"export const {name} = {json.dumps(value)};\n" for name, value in constants.items()]
    found["constants.js"] = "".join(lines).encode()
    return {name: (body, f'"{sha256(body).hexdigest()[:20]}"') for name, body in found.items()}


def serve(
    folder: Path,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: str | None = None,
    *,
    alarms: Alarms = alarms_of,
    ready: Callable[[str], object] = lambda _url: None,
) -> None:
    """Serve the page of all runs below a folder until interrupted.

    port: 0 for any that is free. token: what a request must bring; made by itself where others can reach the page.
    ready: told the address, once it answers.
    """
    if not Path(folder).is_dir():
        raise RunError(
            sentence(
                f"There is nothing to watch at {folder}",
                expected="a folder",
                got="none",
                do="Name the folder of the runs.",
            )
        )
    if token is not None and len(token) < SHORTEST_TOKEN:
        expected = f"at least {SHORTEST_TOKEN} characters"
        raise ConfigError(sentence("A short token", expected=expected, got=len(token), do="Leave it out to get one."))
    if not 0 <= port <= 65_535:
        raise ConfigError(sentence("A bad port", expected="0 to 65535", got=port, do="Choose another; 0 for any."))
    loopback = is_loopback(host)
    if not loopback and token is None:
        token = secrets.token_urlsafe(32)
    listening = _listen(host, port)
    with listening:
        bound = listening.getsockname()[1]
        app = make_app(Path(folder), loopback=loopback and token is None, token=token, port=bound, alarms=alarms)
        config = uvicorn.Config(
            app,
            access_log=False,  # it would show the token
            log_level="warning",
            server_header=False,
            proxy_headers=False,
            ws="none",
            limit_concurrency=200,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=2,
        )
        with suppress(KeyboardInterrupt):
            _Server(config, lambda: ready(_address(host, bound, token))).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Tells when it answers, which is also when Ctrl-C stops it in good order."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], object]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise RunError(
            sentence(
                "The page cannot be served there",
                expected="an address of this machine and a free port",
                got=f"{host}, port {port}: {error}",
                do="Choose another --port (0 for any) or --host.",
            )
        ) from error


def _address(host: str, port: int, token: str | None) -> str:
    """What to open. An address that stands for all of the machine's is shown by the machine's name."""
    shown = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/" + (f"?token={quote(token, safe='')}" if token else "")


def token_from(given: str | None) -> str | None:
    """A token from the command line, or from $EVERLEARN_DASHBOARD_TOKEN, which no list of processes shows."""
    return given or os.environ.get("EVERLEARN_DASHBOARD_TOKEN") or None
