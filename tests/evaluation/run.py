"""`make evaluate`: run every case, write docs/internals/evaluation.{md,json} and the plots. See `--help`."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
import traceback
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
from evaluation.modes import with_findings  # noqa: E402
from evaluation.options import add_options, is_asked  # noqa: E402
from evaluation.options import perform as perform_asked  # noqa: E402
from evaluation.page import FULL_SIZE, write_page  # noqa: E402
from evaluation.runs import forget_runs, is_kept, make_run  # noqa: E402
from evaluation.store import MEASURED, SIMULATOR, Store, fingerprint  # noqa: E402
from evaluation.tiers import FULL, SHORT, Tier, trials  # noqa: E402
from evaluation.trials import Trial, perform, runs_of  # noqa: E402
from golden.report_json import ROW, written  # noqa: E402

DOCS = ROOT / "docs" / "internals"
KEPT = ROOT / "build" / "evaluation"
FIT_SEED = 0


def main() -> None:
    """Parse, run what is missing, render."""
    parser = argparse.ArgumentParser(prog="evaluate", description=__doc__)
    parser.add_argument("--full", action="store_true", help="published rows at the papers' size (hours)")
    parser.add_argument(
        "--kept-only", action="store_true", help="only trials whose runs are simulated already"
    )
    parser.add_argument("--prepare", action="store_true", help="only simulate what is missing")
    parser.add_argument("--fit", action="store_true", help="measure the simulator's fit again (paper size)")
    parser.add_argument("--seeds", type=int, help="fewer or more repetitions than the tier's")
    parser.add_argument("--minutes", type=float, help="begin no trial after so long; the page has the others")
    parser.add_argument("--cases", nargs="*", help="only these cases; the page is not written")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1), help="processes")
    parser.add_argument("--floors", action="store_true", help="record tests/evaluation/floors.json")
    parser.add_argument(
        "--render", action="store_true", help="only render docs/internals/evaluation.json again"
    )
    add_options(parser)
    chosen = parser.parse_args()
    if is_asked(chosen):
        if perform_asked(chosen, ROOT):
            _render()
        return
    if chosen.floors:
        record()
        return
    if chosen.render:
        _render()
        return
    tier = FULL if chosen.full else SHORT
    every = trials(tier)
    if unknown := {*(chosen.cases or ())} - {t.case for t in every}:
        parser.error(f"no case is called {', '.join(sorted(unknown))}")
    wanted = [
        t
        for t in every
        if (chosen.cases is None or t.case in chosen.cases)
        and (chosen.seeds is None or t.seed <= chosen.seeds)
    ]
    if chosen.kept_only:
        wanted = [t for t in wanted if all(is_kept(run) for run in runs_of(t))]
    if chosen.prepare:
        _simulate_missing(wanted, chosen.workers)
        return
    store = Store(KEPT / tier.name, fingerprint(ROOT, MEASURED))
    began = time.monotonic()
    _run_missing(wanted, store, chosen.workers, chosen.minutes)
    fits = _fits(chosen.workers, measure=chosen.fit)
    if chosen.cases is None:
        results = [store.get(t.name) for t in wanted]
        content = _content(tier, results, fits, store.sources)
        name = FULL_SIZE if tier is FULL else "evaluation.json"
        (DOCS / name).write_text(written(content, line=ROW) + "\n", encoding="utf-8")
        _render()
    print(f"done in {time.monotonic() - began:.0f} s", file=sys.stderr)


def _render() -> None:
    write_page(json.loads((DOCS / "evaluation.json").read_text(encoding="utf-8")), DOCS)


def _simulate_missing(wanted: Sequence[Trial], workers: int) -> None:
    runs = [run for run in dict.fromkeys(run for t in wanted for run in runs_of(t)) if not is_kept(run)]
    print(f"{len(runs)} runs to simulate", file=sys.stderr)
    with _pool(workers, len(runs)) as pool:
        for done, run in enumerate(pool.map(make_run, runs), 1):
            print(f"[{done}/{len(runs)}] {run}", file=sys.stderr)


def _run_missing(wanted: Sequence[Trial], store: Store, workers: int, minutes: float | None) -> None:
    began = time.monotonic()
    missing = [t for t in wanted if store.get(t.name) is None]
    print(f"{len(missing)} of {len(wanted)} trials to run", file=sys.stderr)
    missing.sort(key=lambda t: (t.seed, [str(part) for part in t.runs]))
    groups = [list(group) for _, group in groupby(missing, key=lambda t: t.runs)]
    with _pool(workers, len(groups)) as pool:
        futures = [pool.submit(_perform_group, group, store) for group in groups]
        broken = 0
        for done, future in enumerate(as_completed(futures), 1):
            if minutes is not None and time.monotonic() - began > 60 * minutes:
                for waiting in futures:
                    waiting.cancel()
            if future.cancelled():
                continue
            if (error := future.exception()) is not None:
                # What can be measured is; the run ends without a page all the same.
                broken += 1
                traceback.print_exception(error)
                continue
            names, seconds = future.result()
            print(f"[{done}/{len(groups)}] {seconds:6.1f} s  {', '.join(names)}", file=sys.stderr)
    if broken:
        raise SystemExit(f"{broken} groups of trials broke")


def _pool(workers: int, tasks: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(max(1, min(workers, tasks)), mp_context=context)


def _perform_group(group: list[Trial], store: Store) -> tuple[list[str], float]:
    began = time.process_time()
    for trial in group:
        # Paper mode is the yardstick: one seed of it, and every pair in which nothing changed.
        everything = trial.seed == 1 or trial.case == "A/A"
        store.put(trial.name, perform(trial, None if everything else with_findings() or None))
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
