"""Incidents as a watch would have found them, and receivers that do as they are told."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from schemas.incidents import EventKind, Incident, IncidentEvent, IncidentExamples, event_of
from schemas.report.findings import ChangeKind, Interval


def incident(id_: str = "a" * 16, state: str = "open", **fields: Any) -> Incident:
    """One that is worse."""
    now_ns = time.time_ns()
    told: dict[str, Any] = {
        "id": id_,
        "kind": ChangeKind.SLOWER,
        "direction": "worse",
        "lane": "fast",
        "component": "recommendation",
        "operation": "ListRecommendations",
        "state": state,
        "severity": "warning",
        "began_from_ns": now_ns - 120 * 10**9,
        "began_to_ns": now_ns - 60 * 10**9,
        "opened_ns": now_ns - 30 * 10**9,
        "changed_ns": now_ns,
        "resolved_ns": now_ns if state == "resolved" else None,
        "headline": "recommendation/ListRecommendations takes 264 ms, was 12.1 ms",
        "before": 12_100.0,
        "after": 264_000.0,
        "unit": "us",
        "interval": Interval(low=238_000.0, high=266_000.0),
        "contribution_us": 99_200.0,
        "share_of_change": 0.82,
        "examples": IncidentExamples(problem=("r1", "r2")),
        "report": "b" * 16,
    }
    return Incident(**{**told, **fields})


def event(kind: EventKind, one: Incident, at_s: float = 0.0) -> IncidentEvent:
    return event_of(kind, one, one.changed_ns + int(at_s * 1e9))


class Receiver:
    """A server on loopback: each request is kept, and answered with the status that is next."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []
        """Statuses still to be given; 200 after."""
        self.location = ""
        """Of an answer of 3xx."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                body = self.rfile.read(length)
                if len(body) < length:  # the sender was killed at it
                    return
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.requests.append(({**headers, ":path": self.path}, body))
                self.send_response(receiver.answers.pop(0) if receiver.answers else 200)
                self.send_header("Content-Length", "0")
                if receiver.location:
                    self.send_header("Location", receiver.location)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook/SECRET-PATH"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    try:
        yield made
    finally:
        made.close()
