"""Play a window of a described system and write its spans as OTLP JSON, a line for a thousand requests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from evaluation.segments.described import FAILS, PODS, Call, Fault, Scenario, System, attributes

from schemas.arrays import B1, F8, I8

WINDOW_NS: Final = 300 * 10**9
REQUESTS: Final = 12_000
"""Of a window."""
SIGMA: Final = 0.25
"""Of the log-normal law of all times."""
DRIFT: Final = 0.02
"""Of the log of a service's times from window to window."""
UNSTEADY: Final = 0.1
"""The same of its share of failures."""
LINE: Final = 1_000
BAGGAGE: Final = ("tier", "tenant.id", "client.region", "user.id", "session.id")
"""Attributes that every span has; the root's spans have all."""


@dataclass(frozen=True, slots=True)
class Visits:
    """Visits of one operation by the requests of one kind; arrays are [requests]."""

    call: Call
    parent: int
    """Index of the caller's visits; -1 for the root."""
    start: I8
    end: I8
    failed: B1
    pod: I8


class Playing:
    """Requests of a window: `number` says which, `begin_ns` when."""

    def __init__(
        self,
        system: System,
        scenario: Scenario,
        number: int,
        begin_ns: int,
        requests: int | None = None,
        window_ns: int = WINDOW_NS,
    ) -> None:
        """Draw all that holds for the window as a whole; requests: REQUESTS if not said."""
        self.system, self.scenario, self.begin_ns = system, scenario, begin_ns
        self.requests, self.window_ns = REQUESTS if requests is None else requests, window_ns
        self.rng = np.random.default_rng([system.seed, 3, number])
        self.drift = {name: float(np.exp(self.rng.normal(0, DRIFT))) for name in system.services}
        self.fails = {
            name: FAILS * (1 if name in system.tested else 0.1) * float(np.exp(self.rng.normal(0, UNSTEADY)))
            for name in system.services
        }

    def lines(self) -> Iterator[str]:
        """Give lines of JSON, each an ExportTraceServiceRequest."""
        kind = self.rng.integers(len(self.system.roots), size=self.requests)
        for at, root in enumerate(self.system.roots):
            if n := int((kind == at).sum()):
                yield from self._played(root, n)
        if self.scenario.new_kind:
            component = self.system.tested[0]
            refund = Call("edge", "POST /refund", 4.0, (Call(component, "refund", 5.0),))
            yield from self._played(refund, self.scenario.new_kind, certain=True)

    def _played(self, root: Call, n: int, *, certain: bool = False) -> Iterator[str]:
        known = attributes(n, self.rng, self.scenario.moved)
        columns = {key: np.array(values) for key, values in known.items()}
        start = self.begin_ns + np.sort(self.rng.integers(0, self.window_ns, n))
        visits: list[Visits] = []
        self._visit(root, start, -1, columns, visits, certain=certain)
        yield from self._written(visits, known)

    def _visit(
        self,
        call: Call,
        start: I8,
        parent: int,
        columns: dict[str, np.ndarray],
        visits: list[Visits],
        *,
        certain: bool,
    ) -> tuple[I8, B1]:
        """Play the visits of an operation and all below; (when they end, which failed)."""
        n, own = len(start), len(visits)
        pod = self.rng.integers(PODS, size=n)
        visits.append(Visits(call, parent, start, start, np.zeros(n, dtype=np.bool_), pod))
        took = self._ms(call, n)
        failed = self.rng.random(n) < self.fails[call.service]
        failed |= certain and not call.calls
        versions = np.where((pod == PODS - 1) & (call.service in self.scenario.deployed), "2.0", "1.9")
        for fault in self.scenario.faults:
            here = _touched(fault, call, columns | {"service.version": versions}, n)
            took = np.where(here, took * fault.slower, took)
            failed |= here & (self.rng.random(n) < fault.fails)
        part = (took / (1 + len(call.calls)) * 1e6).astype(np.int64)
        now = start + part
        for called in call.calls:
            ended, bad = self._visit(called, now + 100_000, own, columns, visits, certain=certain)
            failed, now = failed | bad, ended + 100_000 + part
        visits[own] = Visits(call, parent, start, now, failed, pod)
        return now, failed

    def _ms(self, call: Call, n: int) -> F8:
        return call.ms * self.drift[call.service] * np.exp(self.rng.normal(0, SIGMA, n))

    def _written(self, visits: Sequence[Visits], known: dict[str, Sequence[str]]) -> Iterator[str]:
        n = len(visits[0].start)
        trace = [f"{high:016x}{low:016x}" for high, low in self.rng.integers(1, 2**62, (n, 2)).tolist()]
        ids = [[f"{at:016x}" for at in self.rng.integers(1, 2**62, n).tolist()] for _ in visits]
        texts = {key: [_attribute(key, text) for text in values] for key, values in known.items()}
        every = [",".join(row) for row in zip(*texts.values(), strict=True)]
        carried = [",".join(row) for row in zip(*(texts[key] for key in BAGGAGE), strict=True)]
        for first in range(0, n, LINE):
            rows = range(first, min(first + LINE, n))
            spans: dict[tuple[str, int], list[str]] = {}
            for at, mine in enumerate(visits):
                name, fixed = json.dumps(mine.call.operation), _fixed(mine.call)
                above = ids[mine.parent] if mine.parent >= 0 else None
                words = carried if above else every
                start, end = mine.start.tolist(), mine.end.tolist()
                failed, pods = mine.failed.tolist(), mine.pod.tolist()
                for row in rows:
                    parent = f'"parentSpanId":"{above[row]}",' if above else ""
                    status = ',"status":{"code":2}' if failed[row] else ""
                    spans.setdefault((mine.call.service, pods[row]), []).append(
                        f'{{"traceId":"{trace[row]}","spanId":"{ids[at][row]}",{parent}"name":{name},"kind":2,'
                        f'"startTimeUnixNano":"{start[row]}","endTimeUnixNano":"{end[row]}",'
                        f'"attributes":[{fixed},{words[row]}]{status}}}'
                    )
            yield _line(spans, self.scenario.deployed)


def _touched(fault: Fault, call: Call, columns: dict[str, np.ndarray], n: int) -> B1:
    if call.service != fault.component or fault.operation not in ("", call.operation):
        return np.zeros(n, dtype=np.bool_)
    return np.all([np.ones(n, dtype=np.bool_), *(columns[k] == v for k, v in fault.of.items())], axis=0)


def _attribute(key: str, text: str) -> str:
    value = f'{{"intValue":"{text}"}}' if key == "items" else f'{{"stringValue":"{text}"}}'
    return f'{{"key":"{key}","value":{value}}}'


def _fixed(call: Call) -> str:
    """Attributes of all spans of an operation."""
    words = {
        "http.request.method": "GET",
        "http.route": f"/{call.operation}",
        "url.scheme": "https",
        "network.protocol.version": "1.1",
        "server.address": f"{call.service}.internal",
        "code.function.name": call.operation.replace(" ", "_"),
        "thread.name": "worker",
        "team": f"team-{sum(call.service.encode()) % 7}",
    }
    return ",".join(_attribute(key, text) for key, text in words.items())


def _line(spans: dict[tuple[str, int], list[str]], deployed: Sequence[str]) -> str:
    resources = []
    for (service, pod), mine in spans.items():
        words = {
            "service.name": service,
            "service.version": "2.0" if service in deployed and pod == PODS - 1 else "1.9",
            "service.instance.id": f"{service}-{pod}",
            "host.name": f"{service}-{pod}",
            "k8s.pod.name": f"{service}-{pod}",
            "cloud.availability_zone": f"zone-{pod}",
            "deployment.environment.name": "production",
        }
        known = ",".join(_attribute(key, text) for key, text in words.items())
        resources.append(
            f'{{"resource":{{"attributes":[{known}]}},"scopeSpans":[{{"spans":[{",".join(mine)}]}}]}}'
        )
    return f'{{"resourceSpans":[{",".join(resources)}]}}'
