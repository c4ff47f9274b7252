"""Guard of the server: refuses requests that cannot come from the server's own pages, and adds security
headers.

A foreign name that resolves to this machine (DNS rebinding) is detected by `Host`; a change requested by
another site by `Origin` and `Sec-Fetch-Site`; a large body by its size.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flowdiff.serve.settings import ServeSettings
from flowdiff.serve.shell import POLICY

# With `no-referrer` a browser would name no origin in a POST of our own forms, either.
_HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
"""Headers added to every answer in which they are not set."""
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_METHODS: Final = ("GET", "HEAD", "POST", "DELETE")


class RefusedError(Exception):
    """Refusal of a request that breaks a rule of the guard; `status` is the HTTP status of the answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Guard:
    """ASGI application that checks requests before it passes them to the wrapped application."""

    def __init__(self, app: ASGIApp, hosts: Collection[str], settings: ServeSettings) -> None:
        """hosts: names by which the server may be reached, without ports."""
        self._app = app
        self._hosts = {host.lower() for host in hosts}
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, and pass it to the wrapped application; answer it with an error if it breaks a
        rule.
        """
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def answered(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            self._check(scope)
            await self._app(scope, self._bounded(receive), answered)
        except RefusedError as refusal:
            # Close: the rest of a refused request could be read as another request.
            refused = PlainTextResponse(f"{refusal}\n", refusal.status, {"connection": "close"})
            await refused(scope, receive, answered)

    def _check(self, scope: Scope) -> None:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        hosts = headers.get(b"host", [])
        if len(hosts) != 1:
            raise RefusedError(400, "A request names one Host.")
        if b"transfer-encoding" in headers and b"content-length" in headers:
            # A proxy may use the other header, and take the rest for the request of another user.
            raise RefusedError(400, "A request has a length or chunks.")
        host = hosts[0].decode("latin-1")
        if host_name(host) not in self._hosts:
            raise RefusedError(421, "This server is not known by that name; see --host.")
        if scope["method"] not in _METHODS:
            raise RefusedError(405, "GET, HEAD, POST or DELETE.")
        if scope["method"] in ("POST", "DELETE"):
            self._check_change(headers, host)
        for length in headers.get(b"content-length", []):
            if not length.isdigit() or int(length) > self._settings.most_body_bytes:
                raise RefusedError(413, f"A body has at most {self._settings.most_body_bytes} bytes.")

    def _check_change(self, headers: dict[bytes, list[bytes]], host: str) -> None:
        """Raise RefusedError if a page of another site requests a change; browsers send the origin with every
        POST."""
        origins = headers.get(b"origin", [])
        if any(_netloc(origin.decode("latin-1")) != host.lower() for origin in origins):
            raise RefusedError(403, "Another site may not ask for this.")
        if any(site not in (b"same-origin", b"none") for site in headers.get(b"sec-fetch-site", [])):
            raise RefusedError(403, "Another site may not ask for this.")

    def _bounded(self, receive: Receive) -> Receive:
        """Wrap `receive` to limit the size of the body and the time in which it must arrive
        (RefusedError)."""
        taken = 0
        deadline = asyncio.get_running_loop().time() + self._settings.header_seconds
        is_whole = False

        async def received() -> Message:
            nonlocal taken, is_whole
            if is_whole:
                return await receive()  # the end of the connection
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError as error:
                raise RefusedError(408, "The body did not come in time.") from error
            taken += len(message.get("body", b""))
            if taken > self._settings.most_body_bytes:
                raise RefusedError(413, f"A body has at most {self._settings.most_body_bytes} bytes.")
            is_whole = not message.get("more_body", False)
            return message

        return received


def _netloc(origin: str) -> str:
    """Host and port of an origin, lower case; empty if the origin has no host."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def host_name(host: str) -> str:
    """Host name from a Host header or an address, without port and brackets, lower case."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return (host.rpartition(":")[0] if host.count(":") == 1 else host).lower()
