"""`make evaluate`: run every case, write docs/evaluation.{md,json} and the plots. See `--help`."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# Run as a script: the harness is a package of the tests, found as pytest finds it.
sys.path.insert(0, str(ROOT / "tests"))

from evaluation.fitting import FITTED, measure_fit  # noqa: E402
from evaluation.floors import record  # noqa: E402
from evaluation.page import write_page  # noqa: E402
from evaluation.recordings.measuring import Part, Wanted, measure  # noqa: E402
from evaluation.recordings.verdicts import totals  # noqa: E402
from evaluation.runs import forget_runs, is_kept, make_run  # noqa: E402
from evaluation.store import MEASURED, SIMULATOR, Store, fingerprint  # noqa: E402
from evaluation.tiers import FULL, SHORT, Tier, trials  # noqa: E402
from evaluation.trials import Trial, perform, runs_of  # noqa: E402

from analyze.methods.registry import all_methods  # noqa: E402

DOCS = ROOT / "docs"
RECORDINGS = "evaluation-recordings.json"
KEPT = ROOT / "build" / "evaluation"
FIT_SEED = 0


def main() -> None:
    """Parse, run what is missing, render."""
    parser = argparse.ArgumentParser(prog="evaluate", description=__doc__)
    parser.add_argument("--full", action="store_true", help="the papers' size, 20 seeds (hours)")
    parser.add_argument("--prepare", action="store_true", help="only simulate what is missing")
    parser.add_argument("--fit", action="store_true", help="measure the simulator's fit again (paper size)")
    parser.add_argument("--seeds", type=int, help="fewer or more repetitions than the tier's")
    parser.add_argument("--cases", nargs="*", help="only these cases; the page is not written")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1), help="processes")
    parser.add_argument("--floors", action="store_true", help="record tests/evaluation/floors.json")
    parser.add_argument("--render", action="store_true", help="only render docs/evaluation.json again")
    _add_recordings(parser)
    chosen = parser.parse_args()
    if chosen.real is not None:
        _recordings(chosen)
        return
    if chosen.floors:
        record()
        return
    if chosen.render:
        _render()
        return
    tier = FULL if chosen.full else SHORT
    wanted = [
        t
        for t in trials(tier)
        if (chosen.cases is None or t.case in chosen.cases)
        and (chosen.seeds is None or t.seed <= chosen.seeds)
    ]
    if chosen.prepare:
        _simulate_missing(wanted, chosen.workers)
        return
    store = Store(KEPT / tier.name, fingerprint(ROOT, MEASURED))
    began = time.monotonic()
    _run_missing(wanted, store, chosen.workers)
    fits = _fits(chosen.workers, measure=chosen.fit or chosen.full)
    if chosen.cases is None:
        results = [store.get(t.name) for t in wanted]
        content = _content(tier, results, fits, store.sources)
        (DOCS / "evaluation.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        write_page(content, DOCS)
    print(f"done in {time.monotonic() - began:.0f} s", file=sys.stderr)


def _add_recordings(parser: argparse.ArgumentParser) -> None:
    real = parser.add_argument_group("recordings of real systems with labelled faults")
    real.add_argument(
        "--real", type=Path, metavar="FOLDER", help="compare these instead; cases.json is there"
    )
    real.add_argument("--case", default="", metavar="TEXT", help="only cases and pairs with this text")
    real.add_argument("--method", nargs="*", help="methods; robust where there is one, and paper")
    real.add_argument("--mode", choices=("a", "b", "ab"), default="ab", help="a: with history; b: without")
    real.add_argument("--quiet", action="store_true", help="only pairs of quiet stretches")
    real.add_argument("--no-quiet", action="store_true", help="only faults")
    real.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the methods")
    real.add_argument("--show", type=int, default=0, metavar="N", help="first N results of every comparison")
    real.add_argument("--page", action="store_true", help="keep the result for docs/evaluation.md; render it")
    real.add_argument("--json", type=Path, metavar="FILE", help="write rows and totals here")


def _recordings(chosen: argparse.Namespace) -> None:
    methods = chosen.method or [name for name in ("robust", "paper") if name in all_methods()]
    parts: list[Part] = [
        *(["faults"] if not chosen.quiet else []),
        *(["quiet"] if not chosen.no_quiet else []),
    ]
    rows = measure(
        Wanted(
            folder=chosen.real,
            methods=tuple(methods),
            modes=tuple(chosen.mode),
            parts=tuple(parts),
            case=chosen.case,
            settings={name: value for name, _, value in (text.partition("=") for text in chosen.set)},
            workers=chosen.workers,
            shown=chosen.show,
        ),
        ROOT,
    )
    content = json.dumps({"totals": totals(rows), "rows": rows}, indent=1) + "\n"
    if chosen.json is not None:
        chosen.json.write_text(content, encoding="utf-8")
    if chosen.page:
        (DOCS / RECORDINGS).write_text(content, encoding="utf-8")
        _render()


def _render() -> None:
    write_page(json.loads((DOCS / "evaluation.json").read_text(encoding="utf-8")), DOCS)


def _simulate_missing(wanted: Sequence[Trial], workers: int) -> None:
    runs = [run for run in dict.fromkeys(run for t in wanted for run in runs_of(t)) if not is_kept(run)]
    print(f"{len(runs)} runs to simulate", file=sys.stderr)
    with _pool(workers, len(runs)) as pool:
        for done, run in enumerate(pool.map(make_run, runs), 1):
            print(f"[{done}/{len(runs)}] {run}", file=sys.stderr)


def _run_missing(wanted: Sequence[Trial], store: Store, workers: int) -> None:
    missing = [t for t in wanted if store.get(t.name) is None]
    print(f"{len(missing)} of {len(wanted)} trials to run", file=sys.stderr)
    missing.sort(key=lambda t: [str(part) for part in t.runs])
    groups = [list(group) for _, group in groupby(missing, key=lambda t: t.runs)]
    with _pool(workers, len(groups)) as pool:
        futures = [pool.submit(_perform_group, group, store) for group in groups]
        for done, future in enumerate(as_completed(futures), 1):
            names, seconds = future.result()
            print(f"[{done}/{len(groups)}] {seconds:6.1f} s  {', '.join(names)}", file=sys.stderr)


def _pool(workers: int, tasks: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(max(1, min(workers, tasks)), mp_context=context)


def _perform_group(group: list[Trial], store: Store) -> tuple[list[str], float]:
    began = time.process_time()
    for trial in group:
        store.put(trial.name, perform(trial))
    forget_runs()
    return [t.name for t in group], time.process_time() - began


def _fits(workers: int, *, measure: bool) -> list[dict[str, Any]]:
    """The fits: measured now where asked for and missing, else those of the last page, marked by source."""
    sources = fingerprint(ROOT, SIMULATOR)
    store = Store(KEPT / "fit", sources)
    found = {w: store.get(w) for w in FITTED}
    missing = [w for w, result in found.items() if result is None]
    if measure and missing:
        with _pool(workers, len(missing)) as pool:
            futures = {pool.submit(measure_fit, w, FIT_SEED): w for w in missing}
            for future in as_completed(futures):
                result = future.result()
                store.put(futures[future], result)
                found[futures[future]] = result
                print(f"fit of {futures[future]}", file=sys.stderr)
    fresh = [{**result, "simulator": sources, "current": True} for result in found.values() if result]
    if len(fresh) == len(FITTED):
        return fresh
    last = DOCS / "evaluation.json"
    kept = json.loads(last.read_text(encoding="utf-8"))["fit"] if last.is_file() else []
    return [{**f, "current": f["simulator"] == sources} for f in kept] or fresh


def _content(
    tier: Tier, results: Sequence[dict[str, Any] | None], fits: list[dict[str, Any]], sources: str
) -> dict[str, Any]:
    return {
        "version": 1,
        "tier": tier.name,
        "sample": tier.sample,
        "traced": tier.traced,
        "sources": sources,
        "fit": fits,
        "trials": [r for r in results if r is not None],
    }


if __name__ == "__main__":
    main()
