"""The simulated service of `flowdiff up --demo`: it sends its spans over OTLP as they happen.

It has run for some minutes when it is started: what came of them is sent first, so that a watch knows what is
usual.
"""

from __future__ import annotations

import http.client
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from flowdiff.simulation import simulate
from schemas.windows import NS_PER_SECOND

BEFORE_S: Final = 600
"""Seconds that the service has run when it begins to send."""
UNTIL_FAULT_S: Final = 120
FAULT_S: Final = 300
AFTER_S: Final = 300
"""Seconds after the repair until the service ends."""
HEALTHY_RATE, FAULTY_RATE = 250, 160
"""Requests that the workload makes a second, without and with the fault, and a few more: four clients
that do not pause make fewer of slower ones."""
SAMPLE: Final = 0.2
WORKLOAD: Final = "postmark-large"
FAULT: Final = "F1-mds-config"
_BATCH_BYTES: Final = 2**20
_TURN_S: Final = 0.5
_END: Final = re.compile(rb'"endTimeUnixNano":"(\d+)"')
_HEAD, _TAIL = b'{"resourceSpans":[', b"]}"


@dataclass(frozen=True, slots=True, order=True)
class _Request:
    """One line of a file: a request of the service, as OTLP."""

    end_ns: int
    """Time of its last span's end, at which it is sent."""
    at: int
    size: int


def main(address: str) -> None:
    """Send until the service ends, to `host:port` of OTLP over HTTP."""
    begun_s = int(time.time())
    start_s, broken_s = begun_s - BEFORE_S, begun_s + UNTIL_FAULT_S
    repaired_s = broken_s + FAULT_S
    _say(f"a simulated storage service sends its last {BEFORE_S // 60} minutes, then what happens in it")
    with tempfile.TemporaryDirectory(prefix="flowdiff-demo-") as name:
        broken = _simulated(Path(name) / "broken.jsonl", start_s, repaired_s, seed=1, fault_at_s=broken_s)
        _say(f"its metadata server breaks at {_clock(broken_s)}, and is repaired at {_clock(repaired_s)}")
        _send(address, broken, repaired_s)
        repaired = _simulated(Path(name) / "repaired.jsonl", repaired_s, repaired_s + AFTER_S, seed=2)
        _send(address, repaired, repaired_s + AFTER_S)
    _say("the simulated service has ended; all else goes on")


def _say(text: str) -> None:
    print(f"demo: {text}", flush=True)


def _clock(at_s: int) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(at_s)) + " UTC"


def _simulated(path: Path, start_s: int, end_s: int, *, seed: int, fault_at_s: int | None = None) -> Path:
    """File with the requests between two times, one a line."""
    until_fault_s = (end_s if fault_at_s is None else fault_at_s) - start_s
    return simulate(
        path,
        requests=until_fault_s * HEALTHY_RATE + (end_s - start_s - until_fault_s) * FAULTY_RATE,
        workload=WORKLOAD,
        fault=() if fault_at_s is None else FAULT,
        fault_start=0.0 if fault_at_s is None else until_fault_s,
        seed=seed,
        start=datetime.fromtimestamp(start_s, UTC),
        sample=SAMPLE,
        workers=2,
        format="otlp-json",
    )


def _requests(path: Path) -> list[_Request]:
    """Requests of a file, in the order in which they end."""
    found, at = [], 0
    with path.open("rb") as file:
        for line in file:
            ends = [int(each) for each in _END.findall(line)]
            found.append(_Request(max(ends, default=0), at, len(line)))
            at += len(line)
    return sorted(found)


def _send(address: str, path: Path, until_s: int) -> None:
    """Send each request of a file when it ends, those that have ended at once."""
    waiting = [one for one in _requests(path) if one.end_ns < until_s * NS_PER_SECOND]
    sent = 0
    with path.open("rb") as file:
        while sent < len(waiting):
            due = sent
            while due < len(waiting) and waiting[due].end_ns <= time.time_ns():
                due += 1
            for body in _bodies(file.fileno(), waiting[sent:due]):
                _post(address, body)
            sent = due
            time.sleep(_TURN_S)


def _bodies(descriptor: int, requests: list[_Request]) -> Iterator[bytes]:
    """Bodies of some requests each."""
    parts: list[bytes] = []
    size = 0
    for one in requests:
        line = os.pread(descriptor, one.size, one.at).strip()
        parts.append(line[len(_HEAD) : -len(_TAIL)])
        size += len(line)
        if size >= _BATCH_BYTES:
            yield _HEAD + b",".join(parts) + _TAIL
            parts, size = [], 0
    if parts:
        yield _HEAD + b",".join(parts) + _TAIL


def _post(address: str, body: bytes) -> None:
    """Send a body until it is taken."""
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
