"""Times and failures at call sites, worked out trace by trace: loops over spans. Slow and obvious."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

START_NS = 1_793_491_200 * 10**9
"""2026-11-01."""


@dataclass
class Call:
    """A span and what it calls."""

    operation: tuple[str, str]
    start_ns: int
    end_ns: int
    failed: bool
    children: list[Call] = field(default_factory=list)

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns

    @property
    def own_ns(self) -> int:
        """Time in which no child runs."""
        busy, reached = 0, self.start_ns
        for child in sorted(self.children, key=lambda one: one.start_ns):
            busy += max(0, child.end_ns - max(reached, child.start_ns))
            reached = max(reached, child.end_ns)
        return self.duration_ns - busy


class Trace(NamedTuple):
    """A request."""

    root: Call
    weight: float


def made_traces(seed: int, n: int, seconds: int) -> list[Trace]:
    """Requests with calls in series and in parallel, optional ones, loops, failures and sampling."""
    rng = random.Random(seed)

    def call(depth: int, start: int, place: int) -> Call:
        operation = (f"service-{'abc'[(depth + place) % 3]}", f"{'wxyz'[depth]}-{'abcd'[place]}")
        made = Call(operation, start, start, rng.random() < 0.1)
        at = start + rng.randrange(10_000, 3_000_000)
        for number in range(rng.randrange(4) if depth < 3 else 0):
            repeats = rng.choice((1, 1, 2, 3))
            kind = rng.choice(("series", "parallel"))
            together = [call(depth + 1, at, number) for _ in range(repeats)]
            for child in together:
                if kind == "series":
                    moved(child, at - child.start_ns)
                    at = child.end_ns + rng.randrange(1_000, 500_000)
                else:
                    moved(child, rng.randrange(200_000))
            at = max([at, *(child.end_ns + rng.randrange(1_000, 500_000) for child in together)])
            made.children += together
        made.end_ns = at + rng.randrange(10_000, 2_000_000)
        return made

    traces = []
    for number in range(n):
        root = call(0, START_NS + number * seconds * 10**9 // n, rng.randrange(2))
        traces.append(Trace(root, 2.0 if rng.random() < 0.3 else 1.0))
    return traces


def moved(call: Call, by_ns: int) -> None:
    call.start_ns += by_ns
    call.end_ns += by_ns
    for child in call.children:
        moved(child, by_ns)


def otlp_lines(traces: Sequence[Trace]) -> Iterator[str]:
    """The requests as OTLP JSON, one a line; of weight 2 are those sampled one in two."""
    for number, trace in enumerate(traces):
        resources: list[dict[str, object]] = []
        add_spans(
            resources,
            trace.root,
            "",
            {
                "traceId": f"{number + 1:032x}",
                "traceState": "ot=th:8" if trace.weight > 1 else "",
                "kind": 2,
            },
        )
        yield json.dumps({"resourceSpans": resources})


def add_spans(resources: list[dict[str, object]], call: Call, parent: str, common: dict[str, object]) -> None:
    """Add a call and those below it, each as the span of a resource."""
    own = f"{len(resources) + 1:016x}"
    service, name = call.operation
    span = {
        **common,
        "spanId": own,
        "parentSpanId": parent,
        "name": name,
        "startTimeUnixNano": str(call.start_ns),
        "endTimeUnixNano": str(call.end_ns),
        "status": {"code": 2 if call.failed else 1},
    }
    words = {"service.name": service, "service.version": f"1.{len(name) % 2}"}
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in words.items()]
    resources.append({"resource": {"attributes": attributes}, "scopeSpans": [{"spans": [span]}]})
    for child in call.children:
        add_spans(resources, child, own, common)


def bin_quantile(values: Sequence[tuple[float, float]], q: float) -> float:
    """Quantile of (value, weight) as a histogram of 32 bins an octave has it."""
    weight: dict[int, float] = {}
    for value, w in values:
        at = int(math.log2(max(value, 1)) * 32)
        weight[at] = weight.get(at, 0) + w
    target, below = q * sum(weight.values()), 0.0
    for at in sorted(weight):
        if below + weight[at] >= target * (1 - 1e-12):
            return float(2 ** ((at + min(1, max(0, (target - below) / weight[at]))) / 32))
        below += weight[at]
    raise AssertionError("no value")


Place = tuple[int, str | None, str]
"""Start of the window, caller, operation."""
CallsBySite = dict[tuple[str | None, str], list[Call]]


class SiteRow(NamedTuple):
    """What `call_sites` has of a call site in a window."""

    requests: int
    calls: float
    own_us: list[float]
    """Median, 95th and 99th percentile."""
    duration_us: list[float]
    failing: float


def calls_by_site(call: Call, caller: str | None, found: CallsBySite) -> None:
    """Collect calls by caller and operation."""
    operation = "/".join(call.operation)
    found.setdefault((caller, operation), []).append(call)
    for child in call.children:
        calls_by_site(child, operation, found)


def call_sites(traces: Sequence[Trace], window_ns: int) -> dict[Place, SiteRow]:
    """By place."""
    seen: dict[Place, list[tuple[float, list[Call]]]] = {}
    for trace in traces:
        window = trace.root.start_ns // window_ns * window_ns
        mine: CallsBySite = {}
        calls_by_site(trace.root, None, mine)
        for (caller, operation), calls in mine.items():
            seen.setdefault((window, caller, operation), []).append((trace.weight, calls))
    return {place: site_row(requests) for place, requests in seen.items()}


def site_row(requests: Sequence[tuple[float, list[Call]]]) -> SiteRow:
    """Of (weight, calls) of each request."""
    total = sum(weight for weight, _ in requests)

    def quantiles_us(values: Sequence[float]) -> list[float]:
        weighted = [(value, weight) for value, (weight, _) in zip(values, requests, strict=True)]
        return [bin_quantile(weighted, q) / 1e3 for q in (0.5, 0.95, 0.99)]

    return SiteRow(
        len(requests),
        sum(weight * len(calls) for weight, calls in requests) / total,
        quantiles_us([sum(call.own_ns for call in calls) / len(calls) for _, calls in requests]),
        quantiles_us([sum(call.duration_ns for call in calls) / len(calls) for _, calls in requests]),
        sum(w * sum(call.failed for call in calls) / len(calls) for w, calls in requests) / total,
    )


class PatternRow(NamedTuple):
    """What `call_patterns` has of a call pattern in a window."""

    requests: int
    share: float
    calls: float


def call_patterns(traces: Sequence[Trace], window_ns: int) -> dict[tuple[Place, tuple[str, ...]], PatternRow]:
    """By place, and what is called there, as text."""
    found: dict[tuple[Place, tuple[str, ...]], list[tuple[float, int, float]]] = {}
    total: dict[Place, float] = {}
    for trace in traces:
        mine: CallsBySite = {}
        calls_by_site(trace.root, None, mine)
        for (caller, operation), calls in mine.items():
            place = (trace.root.start_ns // window_ns * window_ns, caller, operation)
            total[place] = total.get(place, 0.0) + trace.weight
            for pattern, n in Counter(map(children_of, calls)).items():
                found.setdefault((place, pattern), []).append((trace.weight, n, n / len(calls)))
    return {
        (place, pattern): PatternRow(
            len(rows),
            sum(weight * share for weight, _, share in rows) / total[place],
            sum(weight * n for weight, n, _ in rows) / total[place],
        )
        for (place, pattern), rows in found.items()
    }


def children_of(call: Call) -> tuple[str, ...]:
    """Operations that a call calls, with their number rounded up to a power of two."""
    counts = Counter("/".join(child.operation) for child in call.children)
    up = {name: next(2**k for k in range(9) if 2**k >= n) for name, n in counts.items()}
    return tuple(name if n == 1 else f"{name} x {n}" for name, n in sorted(up.items()))
