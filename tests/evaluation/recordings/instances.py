"""One instance of several, or one version, made slow or failing in quiet stretches of real recordings.

    make evaluate INSTANCES=1 REAL=DIR

Every service gets five pods, or four and a canary: a call that enters it is served by one of them, drawn by
chance, in all stretches; a canary comes with the problem. Every second quiet stretch gets a case, the one
before it is its reference, all others its history. What a slow pod adds is played to whoever waits for it
(`replayed`). A case counts as visible if LEAST_AFFECTED requests have it and, of slow ones, take LEAST_SLOWER
longer by it. What must be found is the service *and* the pod or the version, in the first finding.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from evaluation.recordings.comparing import Mode
from evaluation.recordings.injecting import LEAST_REQUESTS, LEAST_SLOWER, as_line, stretches_of
from evaluation.recordings.labelled import read_recordings
from evaluation.recordings.measuring import Wanted, compared
from evaluation.recordings.replayed import Span, below, told_again
from evaluation.recordings.verdicts import Row

ROOT = Path(__file__).resolve().parents[3]
PODS = 5
CANARY = 0.1
"""Of the calls that enter a service."""
LEAST_AFFECTED = 5
KINDS = (
    *("pod-slow-1.5", "pod-slow-2", "pod-slow-3", "pod-fails-5", "pod-fails-20"),
    *("canary-slow-2", "canary-slow-3", "canary-fails-20"),
)


def main() -> None:
    """Write recordings with cases, compare, and print a line of figures a kind."""
    parser = argparse.ArgumentParser(prog="instances", description=__doc__)
    parser.add_argument("folder", type=Path, help="recordings and their cases.json")
    parser.add_argument("--out", type=Path, default=ROOT / ".cache" / "instances")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--pairs", type=int, default=3, help="quiet pairs of a recording and seed")
    parser.add_argument("--mode", choices=("a", "b", "ab"), default="ab", help="a: with history; b: without")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--json", type=Path, help="write figures here")
    chosen = parser.parse_args()
    write(chosen.folder, chosen.out, chosen.seeds)
    modes: tuple[Mode, ...] = tuple(chosen.mode)
    wanted = Wanted(chosen.out, ("robust",), modes, pairs=chosen.pairs, workers=chosen.workers)
    rows = []
    for row in compared(wanted, ROOT):
        rows.append(row)
        if row["results"] if row["kind"] == "quiet" else row["visible"] == "visible" and not named(row):
            print(row["recording"], row["mode"], row.get("case", "quiet"), row.get("type", ""))
            print("".join(f"      {result['text']}\n" for result in row["top"][:2]), end="", flush=True)
    found = figures(rows)
    for one in found:
        print(", ".join(f"{key} {value}" for key, value in one.items()))
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def named(row: Row) -> bool:
    """Tell whether the first finding names the service and the pod or the version."""
    _, _, where = row["type"].partition(":")
    return row["rank"] == 1 and any(word in row["top"][0]["text"] for word in where.split("|"))


def figures(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Count cases by kind and mode, and findings of quiet pairs."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["kind"] == "quiet" or row["visible"] == "visible":
            groups[row.get("type", "quiet").partition(":")[0], row["mode"]].append(row)
    order = {kind: at for at, kind in enumerate((*KINDS, "quiet"))}
    found = []
    for (kind, mode), mine in sorted(groups.items(), key=lambda item: (item[0][1], order[item[0][0]])):
        one: dict[str, Any] = {"kind": kind, "mode": mode, "cases": len(mine)}
        if kind != "quiet":
            one |= {"first": sum(row["rank"] == 1 for row in mine), "named": sum(map(named, mine))}
            one |= {"passed": sum(row["exit_code"] == 0 for row in mine)}
        found.append(one | {"results": sum(row["results"] for row in mine)})
    return found


def write(folder: Path, out: Path, seeds: Sequence[int]) -> None:
    """Write recordings with cases as `--real` reads them."""
    out.mkdir(parents=True, exist_ok=True)
    listed = []
    for recording in read_recordings(folder):
        stretches = stretches_of(recording)
        for seed in seeds:
            name = f"{recording.name.split('-20')[0]}-instances-{seed}.otlp.jsonl.zst"
            cases, traces = injected(stretches, seed)
            if not cases:
                continue
            with pa.CompressedOutputStream(str(out / name), "zstd") as sink:
                for trace, root in sorted(traces, key=lambda pair: pair[1].end):
                    sink.write(as_line(trace, root))
            problems = {case["problem"] for case in cases}
            quiet = [text for text in stretches if text not in problems]
            listed.append({"recording": name, "quiet": quiet, "cases": cases})
    (out / "cases.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")


def injected(
    stretches: dict[str, dict[str, Span]], seed: int
) -> tuple[list[dict[str, Any]], list[tuple[str, Span]]]:
    """Give cases, and all traces (id, root)."""
    rng = np.random.default_rng([seed, len(stretches)])
    cases: list[dict[str, Any]] = []
    traces: list[tuple[str, Span]] = []
    texts = list(stretches)
    for at, text in enumerate(texts):
        whole = {trace: root.copy() for trace, root in stretches[text].items()}
        kind = ""
        service = ""
        if at and at % 2 == seed % 2:
            kind = KINDS[(at // 2 + seed) % len(KINDS)]
            service = _service(whole, stretches[texts[at - 1]], rng)
        canary = service if kind.startswith("canary") else ""
        for root in whole.values():
            spread(root, canary, rng)
        if service:
            cases.append(_injected(whole, kind, service, rng))
            minute = text.partition("T")[2][:5]
            cases[-1] |= {"id": f"i-{seed}/{minute}-{service}-{kind}"}
            cases[-1] |= {"problem": text, "reference": texts[at - 1]}
        traces += whole.items()
    return cases, traces


def _service(whole: dict[str, Span], reference: dict[str, Span], rng: np.random.Generator) -> str:
    """Draw a service that enough requests of both stretches reach."""
    here, there = _requests(whole), _requests(reference)
    found = sorted(s for s in here if min(here[s], there.get(s, 0)) >= PODS * LEAST_REQUESTS)
    return found[rng.integers(len(found))] if found else ""


def _requests(traces: dict[str, Span]) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for root in traces.values():
        for service in {span.service for span in below(root)}:
            found[service] += 1
    return found


def spread(root: Span, canary: str, rng: np.random.Generator) -> None:
    """Serve every call that enters a service by one of its pods; what it calls inside stays there."""
    at: list[tuple[Span, Span | None]] = [(root, None)]
    for span, caller in at:
        if caller is not None and caller.service == span.service:
            span.host, span.version = caller.host, caller.version
        elif span.service == canary and rng.random() < CANARY:
            span.host, span.version = f"{span.service}-canary", "v2"
        else:
            span.host, span.version = f"{span.service}-pod-{rng.integers(PODS)}", "v1"
        at += [(call, span) for call in span.calls]


def _injected(whole: dict[str, Span], kind: str, service: str, rng: np.random.Generator) -> dict[str, Any]:
    place, what, size = kind.split("-")
    pod = f"{service}-canary" if place == "canary" else f"{service}-pod-{rng.integers(PODS)}"
    before, after = [0], [0]
    for root in whole.values():
        inside = {id(call) for span in below(root) if span.service == service for call in span.calls}
        mine = [span for span in below(root) if span.service == service and span.host == pod]
        if what == "fails":
            mine = [span for span in mine if id(span) not in inside and rng.random() < float(size) / 100]
        for span in mine:
            span.failed = what == "fails"
            span.delay = 0 if span.failed else int((float(size) - 1) * span.own)
        if mine:
            was = root.end - root.start
            told_again(root)
            before.append(was)
            after.append(root.end - root.start)
    affected, slower = len(before) - 1, sum(after) / max(sum(before), 1) - 1
    seen = affected >= LEAST_AFFECTED and (what == "fails" or slower >= LEAST_SLOWER)
    words = f"{pod}|v2" if place == "canary" else pod
    return {
        "service": service,
        "type": f"{kind}:{words}",
        "affected": affected,
        "slower": round(slower, 3),
        "visible": True if seen else None,
    }


if __name__ == "__main__":
    main()
