"""A proxy before an S3 server that dies, or loses answers, at a request one chooses."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MUTATING = {"PUT", "POST", "DELETE"}
HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive"}


class CuttingProxy(ThreadingHTTPServer):
    """See the module. `crash_at` counts mutating requests from 1; 0 never dies."""

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = upstream
        self.crash_at = 0
        self.carries_out = False
        """The request at which it dies is carried out, and its answer lost."""
        self.loses = 0
        """So many answers to mutating requests are lost from now on; it lives."""
        self.steps = 0
        self.seen: list[str] = []
        """Mutating requests, as they came."""
        self.conditions: list[str] = []
        """`If-None-Match` of the puts that had one."""
        self.statuses: list[int] = []
        """Answers to mutating requests."""
        self.asked: list[str] = []
        """Paths of all requests."""
        self.requests = [0]
        """All of them."""
        self.dead = False
        self.delay_s = 0.0
        """Time that every request takes more."""
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def revive(self, crash_at: int = 0, *, carries_out: bool = False) -> None:
        with self._lock:
            self.crash_at, self.carries_out = crash_at, carries_out
            self.steps, self.dead, self.seen = 0, False, []

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """Around a request under way."""
        with self._lock:
            self._at_once += 1
            self.requests[0] += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            time.sleep(self.delay_s)
            yield
        finally:
            with self._lock:
                self._at_once -= 1

    def fate(self, method: str, path: str) -> tuple[bool, bool]:
        """Whether to forward a request, and whether to answer it."""
        with self._lock:
            self.asked.append(path)
            if self.dead:
                return False, False
            if method not in MUTATING:
                return True, True
            self.steps += 1
            self.seen.append(f"{method} {path}")
            if self.loses:
                self.loses -= 1
                return True, False
            self.dead = self.steps == self.crash_at
            return not self.dead or self.carries_out, not self.dead

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left in the middle is what this is for."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: CuttingProxy

    def _pass_on(self) -> None:
        with self.server.one_more():
            self._exchange()

    def _exchange(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        forwards, answers = self.server.fate(self.command, self.path)
        self.close_connection = not answers
        if not forwards:
            return
        upstream = http.client.HTTPConnection(self.server.upstream, timeout=20)
        # Signed headers, the host among them, stay as they are: servers check the signature.
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            upstream.putheader(name, value)
        upstream.endheaders(body)
        answer = upstream.getresponse()
        content = answer.read()
        upstream.close()
        if self.command in MUTATING:
            self.server.statuses.append(answer.status)
        if condition := self.headers.get("If-None-Match"):
            self.server.conditions.append(condition)
        if not answers:
            return
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP and not (name.lower() == "content-length" and content):
                self.send_header(name, value)
        if content:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


@contextmanager
def cutting_proxy(upstream: str) -> Iterator[CuttingProxy]:
    """A proxy before `host:port`."""
    proxy = CuttingProxy(upstream)
    thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()
