"""The simulated web shop of `flowdiff up --demo`: it sends its spans over OTLP as they happen.

When started it first sends the spans of some past minutes, so that a watch has a baseline.
"""

from __future__ import annotations

import http.client
import re
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Final

from flowdiff.cli.terminal import echo
from flowdiff.simulation import shop
from schemas.windows import NS_PER_SECOND

BEFORE_S: Final = 600
"""Length of the time before the start for which past requests are sent, s."""
UNTIL_FAULT_S: Final = 120
FAULT_S: Final = 300
AFTER_S: Final = 300
"""Time from the rollback to the end of the shop, s."""
PER_SECOND: Final = 40.0
"""Number of requests per second."""
_BATCH_BYTES: Final = 2**20
_TURN_S: Final = 0.5
_BEGIN: Final = re.compile(rb'"startTimeUnixNano":"(\d+)"')
_END: Final = re.compile(rb'"endTimeUnixNano":"(\d+)"')
_HEAD, _TAIL = b'{"resourceSpans":[', b"]}"


def main(address: str) -> None:
    """Send spans until the shop ends. address: `host:port` of OTLP over HTTP."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    begun_s = int(time.time())
    start_s, broken_s = begun_s - BEFORE_S, begun_s + UNTIL_FAULT_S
    repaired_s = broken_s + FAULT_S
    _say(f"a simulated web shop sends its last {BEFORE_S // 60} minutes, then what happens in it")
    _say(f"a slow version of inventory is deployed at {_clock(broken_s)}, until {_clock(repaired_s)}")
    lines = shop(
        start_s * NS_PER_SECOND,
        seconds=repaired_s + AFTER_S - start_s,
        per_second=PER_SECOND,
        deployed_s=broken_s - start_s,
        rolled_back_s=repaired_s - start_s,
    )
    for body in _bodies(_ended(lines)):
        _post(address, body)
    _say("the simulated shop has ended; all else goes on")


def _say(text: str) -> None:
    echo(f"demo: {text}")


def _clock(at_s: int) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(at_s)) + " UTC"


def _ended(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield batches of JSON of requests that have ended, in order of their ends.

    lines: JSON of one request each, in order of their starts.
    """
    running: list[tuple[int, bytes]] = []
    """Heap of requests that have not ended yet: (end in ns since the epoch, JSON)."""
    size = 0
    for line in lines:
        begin_ns = min(map(int, _BEGIN.findall(line)))
        while begin_ns > time.time_ns():
            yield _due(running)
            time.sleep(_TURN_S)
        heappush(running, (max(map(int, _END.findall(line))), line))
        size += len(line)
        if size >= _BATCH_BYTES:
            yield _due(running)
            size = 0
    while running:
        time.sleep(_TURN_S)
        yield _due(running)


def _due(running: list[tuple[int, bytes]]) -> list[bytes]:
    due = []
    while running and running[0][0] <= time.time_ns():
        due.append(heappop(running)[1])
    return due


def _bodies(batches: Iterable[list[bytes]]) -> Iterator[bytes]:
    """Yield OTLP/JSON bodies, each with the requests of one batch."""
    for batch in batches:
        if batch:
            yield _HEAD + b",".join(line.strip()[len(_HEAD) : -len(_TAIL)] for line in batch) + _TAIL


def _post(address: str, body: bytes) -> None:
    """Send a body to the receiver; repeat until it is accepted."""
    while True:
        try:
            connection = http.client.HTTPConnection(address, timeout=30)
            connection.request("POST", "/v1/traces", body, {"Content-Type": "application/json"})
            status = connection.getresponse().status
            connection.close()
        except (OSError, http.client.HTTPException):
            status = 503
        if status < 400:
            return
        if status not in (429, 503):
            sys.exit(f"flowdiff: the receiver refused the simulated service: {status}")
        time.sleep(1.0)
