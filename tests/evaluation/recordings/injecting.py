"""Faults put into quiet stretches of a recording: more truths than its makers labelled, in real traffic.

    python -m evaluation.recordings.injecting FOLDER OUT     (with PYTHONPATH=tests)
    python tests/evaluation/run.py --real OUT --method robust

Writes recordings and a `cases.json` as `--real` reads them. Every second quiet stretch of a recording gets a
fault, the one before it is its reference, all others without a fault its history. A fault is at one operation
of one service, drawn by chance among those that at least LEAST_REQUESTS requests of both stretches reach:

* `slow`: before its first call it takes longer, by some times the spread of its own time (2 to 8), in all
  calls, or in a quarter of them;
* `tail`: a twentieth of its calls takes ten times the median of the whole request longer;
* `fails`: a share of its calls (all, a third) ends at once, as an error, without what it would have called;
* `again`: a call that it makes is made three times, one after the other;
* `skips`: a call that it makes is not made, in all or half of its calls.

What it does to the times of the others is played through (`replayed`). A fault that fewer than
LEAST_AFFECTED requests have, or that makes them slower by less than LEAST_SLOWER, is `unclear`.
"""

from __future__ import annotations

import argparse
import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from evaluation.recordings.labelled import Recording, bounds, read_recordings
from evaluation.recordings.replayed import Span, below, told_again

LEAST_REQUESTS = 20
LEAST_AFFECTED = 8
LEAST_SLOWER = 0.05
"""Of the response times of the requests that have it; of faults that change nothing but time."""

Fault = Callable[[Span, list[Span], np.random.Generator], bool]
"""Changes a trace (root, its spans at the operation); whether it did."""


@dataclass(frozen=True, slots=True)
class Place:
    """An operation of a service."""

    service: str
    name: str


def main() -> None:
    """Read, inject, write."""
    parser = argparse.ArgumentParser(prog="injecting", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4])
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    listed = []
    for recording in read_recordings(chosen.folder):
        stretches = stretches_of(recording)
        for seed in chosen.seeds:
            rng = np.random.default_rng([seed, len(stretches)])
            name = f"{recording.name.split('-20')[0]}-injected-{seed}.otlp.jsonl.zst"
            cases, traces = injected(stretches, seed, rng)
            with pa.CompressedOutputStream(str(chosen.out / name), "zstd") as sink:
                for root in sorted(traces, key=lambda root: root[1].end):
                    sink.write(as_line(*root))
            quiet = [text for text in stretches if text not in {case["problem"] for case in cases}]
            listed.append({"recording": name, "quiet": quiet, "cases": cases})
    (chosen.out / "cases.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")


def stretches_of(recording: Recording) -> dict[str, dict[str, Span]]:
    """Traces by id of every quiet stretch, whole ones with one root that begin in it."""
    spans: dict[str, dict[str, tuple[Span, str | None]]] = defaultdict(dict)
    for span, trace, parent in _spans(recording.file):
        spans[trace][span.id] = (span, parent)
    found: dict[str, dict[str, Span]] = {text: {} for text in recording.quiet}
    ranges = [(*bounds(text), text) for text in recording.quiet]
    for trace, every in spans.items():
        roots = [span for span, parent in every.values() if parent is None or parent not in every]
        if len(roots) != 1:
            continue
        for span, parent in every.values():
            if parent is not None and parent in every:
                every[parent][0].calls.append(span)
        for span, _ in every.values():
            span.calls.sort(key=lambda call: (call.start, call.end, call.id))
        for start, end, text in ranges:
            if start <= roots[0].start < end:
                found[text][trace] = roots[0]
    return found


def injected(
    stretches: dict[str, dict[str, Span]], seed: int, rng: np.random.Generator
) -> tuple[list[dict[str, Any]], list[tuple[str, Span]]]:
    """Cases, and all traces (id, root)."""
    cases: list[dict[str, Any]] = []
    traces: list[tuple[str, Span]] = []
    texts = list(stretches)
    first = seed % 2
    for at, text in enumerate(texts):
        whole = {trace: root.copy() for trace, root in stretches[text].items()}
        if at and at % 2 == first:
            reference = stretches[texts[at - 1]]
            case = _inject(whole, reference, KINDS[(at // 2 + seed) % len(KINDS)], rng)
            if case is not None:
                minute = text.partition("T")[2][:5]
                cases.append({"id": f"injected-{seed}/{minute}-{case['service']}-{case['type']}", **case})
                cases[-1].update(problem=text, reference=texts[at - 1])
        traces += whole.items()
    return cases, traces


def _inject(
    whole: dict[str, Span], reference: dict[str, Span], kind: str, rng: np.random.Generator
) -> dict[str, Any] | None:
    here, there = _by_place(whole), _by_place(reference)
    needs_calls = kind.startswith(("again", "skips"))
    places = [
        place
        for place, traces in here.items()
        if min(len(traces), len(there.get(place, {}))) >= LEAST_REQUESTS
        and (not needs_calls or any(span.calls for spans in traces.values() for span in spans))
    ]
    services = sorted({place.service for place in places})
    if not services:
        return None
    service = services[rng.integers(len(services))]
    mine = sorted((place for place in places if place.service == service), key=lambda place: place.name)
    place = mine[rng.integers(len(mine))]
    own = np.array([span.own for spans in here[place].values() for span in spans])
    fault = _fault(kind, own, float(np.median([root.end - root.start for root in whole.values()])))
    before, after = [0], [0]
    for trace, spans in here[place].items():
        root = whole[trace]
        was = root.end - root.start
        if fault(root, spans, rng):
            told_again(root)
            before.append(was)
            after.append(root.end - root.start)
    affected, slower = len(before) - 1, sum(after) / max(sum(before), 1) - 1
    is_seen = affected >= LEAST_AFFECTED and (slower >= LEAST_SLOWER or kind[:4] not in ("slow", "tail"))
    told = {"affected": affected, "slower": round(slower, 3), "visible": True if is_seen else None}
    return {"service": service, "type": f"{kind}:{place.name}", **told}


KINDS = (
    *("slow-8", "fails-all", "again", "slow-quarter", "tail"),
    *("slow-2", "skips-all", "fails-third", "slow-4", "skips-half"),
)


def _fault(kind: str, own: np.ndarray, whole_ns: float) -> Fault:
    spread = float(np.quantile(own, 0.9) - np.quantile(own, 0.1)) + float(np.median(own))
    what, _, how = kind.partition("-")
    share = {"quarter": 0.25, "third": 1 / 3, "half": 0.5}.get(how, 1.0)

    def slow(_: Span, spans: list[Span], rng: np.random.Generator) -> bool:
        times = float(how) if how.isdigit() else 8.0
        hit = [span for span in spans if rng.random() < share]
        for span in hit:
            span.delay = int(times * spread * rng.lognormal(0.0, 0.3))
        return bool(hit)

    def tail(_: Span, spans: list[Span], rng: np.random.Generator) -> bool:
        hit = [span for span in spans if rng.random() < 0.05]
        for span in hit:
            span.delay = int(10 * whole_ns * rng.lognormal(0.0, 0.3))
        return bool(hit)

    def fails(_: Span, spans: list[Span], rng: np.random.Generator) -> bool:
        hit = [span for span in spans if rng.random() < share]
        for span in hit:
            span.failed = True
        return bool(hit)

    def again(_: Span, spans: list[Span], __: np.random.Generator) -> bool:
        hit = [span for span in spans if span.calls]
        for span in hit:
            span.calls[0].made = 3
        return bool(hit)

    def skips(_: Span, spans: list[Span], rng: np.random.Generator) -> bool:
        hit = [span for span in spans if span.calls and rng.random() < share]
        for span in hit:
            span.calls[0].made = 0
        return bool(hit)

    return {"slow": slow, "tail": tail, "fails": fails, "again": again, "skips": skips}[what]


def _by_place(traces: dict[str, Span]) -> dict[Place, dict[str, list[Span]]]:
    """Spans by operation and trace."""
    found: dict[Place, dict[str, list[Span]]] = defaultdict(lambda: defaultdict(list))
    for trace, root in traces.items():
        for span in below(root):
            found[Place(span.service, span.name)][trace].append(span)
    return found


def _spans(file: Path) -> Iterator[tuple[Span, str, str | None]]:
    with pa.input_stream(str(file), compression="zstd") as source:
        for line in io.TextIOWrapper(source, encoding="utf-8"):
            for resource in json.loads(line)["resourceSpans"]:
                told = {a["key"]: a["value"]["stringValue"] for a in resource["resource"]["attributes"]}
                for scope in resource["scopeSpans"]:
                    for one in scope["spans"]:
                        span = Span(
                            one["spanId"],
                            one["name"],
                            told["service.name"],
                            told["k8s.pod.name"],
                            int(one["startTimeUnixNano"]),
                            int(one["endTimeUnixNano"]),
                        )
                        yield span, one["traceId"], one.get("parentSpanId") or None


def as_line(trace: str, root: Span) -> bytes:
    """An ExportTraceServiceRequest, a line."""
    parents: dict[int, str] = {}
    by_pod: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for span in below(root):
        for call in span.calls:
            parents[id(call)] = span.id
        told: dict[str, Any] = {
            "traceId": trace,
            "spanId": span.id,
            "name": span.name,
            "kind": 0,
            "startTimeUnixNano": str(span.start),
            "endTimeUnixNano": str(span.end),
        }
        if (parent := parents.get(id(span))) is not None:
            told["parentSpanId"] = parent
        if span.failed:
            told["status"] = {"code": 2}
        by_pod[span.service, span.host, span.version].append(told)
    whole = [
        {
            "resource": {
                "attributes": [
                    {"key": key, "value": {"stringValue": value}}
                    for key, value in zip(
                        ("service.name", "k8s.pod.name", "service.version"), pod, strict=True
                    )
                    if value
                ]
            },
            "scopeSpans": [{"spans": spans}],
        }
        for pod, spans in by_pod.items()
    ]
    return json.dumps({"resourceSpans": whole}).encode() + b"\n"


if __name__ == "__main__":
    main()
