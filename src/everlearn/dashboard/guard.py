"""Who may see the page: checks that come before everything else, and headers that come with every answer."""

import hmac
import ipaddress
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("")
    (True, True, True, False, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(header: str) -> str:
    """The name in a Host header, without its port.

    >>> host_of("localhost:80"), host_of("[::1]:80"), host_of("evil.example"), host_of("a:b:c")
    ('localhost', '::1', 'evil.example', 'a:b:c')
    """
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0] if header.count(":") <= 1 else header


class Guard:
    """Middleware. On loopback, the Host must be loopback too: a foreign name that was bent to this address (DNS
    rebinding) is refused. With a token, each request must bring it: as `Authorization: Bearer`, as the cookie, or once
    as `?token=`, which becomes the cookie.
    """

    def __init__(self, app: ASGIApp, *, loopback: bool, token: str | None, cookie: str) -> None:
        self.app, self.loopback, self.token, self.cookie = app, loopback, token, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        answer = self._refusal(scope)
        await (answer or self.app)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if self.loopback and not is_loopback(host_of(headers.get("host", ""))):
            return PlainTextResponse("This page is for this machine only: open it as 127.0.0.1 or localhost.\n", 421)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("This page only shows.\n", 405, {"allow": "GET, HEAD"})
        return None if self.token is None else self._unknown(scope, headers, self.token)

    def _unknown(self, scope: Scope, headers: Headers, token: str) -> Response | None:
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and asked and same(asked, token):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(self.cookie, token, httponly=True, samesite="strict", path="/")
            return answer
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and same(bearer.strip(), token):
            return None
        if same(cookie_parser(headers.get("cookie", "")).get(self.cookie, ""), token):
            return None
        say = "This page needs its token: open the address that `everlearn dashboard` printed.\n"
        return PlainTextResponse(say, 401, {"www-authenticate": "Bearer"})


def same(one: str, two: str) -> bool:
    """Whether two secrets are the same, in a time that does not tell how far they are."""
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), two.encode("utf-8", "surrogatepass"))
