"""Options of `run.py` that ask for something else than the simulated cases: recordings, quiet pairs."""

from __future__ import annotations

import argparse
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import get_args

from evaluation.quiet_pairs import (
    WORKLOADS,
    How,
    Plan,
    QuietPair,
    Row,
    pairs_of_workload,
    perform_pairs,
    quiet_totals,
    runs_of_workload,
)
from evaluation.recordings.comparing import Mode
from evaluation.recordings.measuring import Part, Wanted, measure
from evaluation.recordings.verdicts import crashed, kept_for_page, totals
from evaluation.runs import make_run
from golden.report_json import ROW, written

from analyze.methods.registry import method_names

RECORDINGS, QUIET = "evaluation-recordings.json", "evaluation-quiet.json"
"""What a page is made of, in docs."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of both."""
    real = parser.add_argument_group("recordings of real systems, pairs in which nothing happened")
    real.add_argument("--real", type=Path, metavar="FOLDER", help="recordings and their cases.json")
    real.add_argument("--case", default="", metavar="TEXT", help="only cases and pairs with this text")
    real.add_argument("--method", nargs="*", help="methods; robust where there is one, and paper")
    real.add_argument("--mode", choices=("a", "b", "ab"), default="ab", help="a: with history; b: without")
    real.add_argument(
        "--quiet",
        nargs="?",
        const=0,
        type=int,
        metavar="PAIRS",
        help="only quiet stretches, so many pairs; without --real: simulated pairs in which nothing happened",
    )
    real.add_argument("--exact", action="store_true", help="load quiet pairs one by one, as the command does")
    real.add_argument("--no-quiet", action="store_true", help="only faults")
    real.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the methods")
    real.add_argument("--show", type=int, default=0, metavar="N", help="first N results of every comparison")
    real.add_argument(
        "--page", action="store_true", help="keep the result for docs/internals/evaluation.md; render it"
    )
    real.add_argument("--json", type=Path, metavar="FILE", help="write rows and totals here")


def is_asked(chosen: argparse.Namespace) -> bool:
    """Whether one of the two is asked for."""
    return chosen.real is not None or chosen.quiet is not None


def perform(chosen: argparse.Namespace, root: Path) -> bool:
    """Measure what is asked for, print it, write it; whether the page is to be rendered."""
    methods = tuple(chosen.method or [name for name in ("robust", "paper") if name in method_names()])
    settings = {name: value for name, _, value in (text.partition("=") for text in chosen.set)}
    modes: tuple[Mode, ...] = tuple(chosen.mode)
    if chosen.real is not None:
        skipped = {"faults": chosen.quiet is not None, "quiet": chosen.no_quiet}
        parts = tuple(part for part in get_args(Part) if not skipped[part])
        rows = measure(
            Wanted(
                folder=chosen.real,
                methods=methods,
                modes=modes,
                parts=parts,
                case=chosen.case,
                settings=settings,
                exact=chosen.exact,
                workers=chosen.workers,
                pairs=chosen.quiet or None,
                shown=chosen.show,
            ),
            root,
        )
        found, name = {"totals": totals(rows), "rows": rows}, RECORDINGS
        on_page = {**found, "rows": kept_for_page(rows)}
    else:
        rows = _quiet(chosen.quiet or 200, How(methods, modes, settings), chosen.workers)
        # Rows without a result say nothing that the totals do not.
        found, name = {"totals": quiet_totals(rows), "rows": [row for row in rows if row["results"]]}, QUIET
        on_page = found
    if chosen.json is not None:
        chosen.json.write_text(written(found, line=ROW) + "\n", encoding="utf-8")
    if chosen.page:
        (root / "docs" / "internals" / name).write_text(written(on_page, line=ROW) + "\n", encoding="utf-8")
    if broken := sum(crashed(row) for row in rows):
        raise SystemExit(f"{broken} comparisons crashed")
    return bool(chosen.page)


def _quiet(pairs: int, how: How, workers: int) -> list[Row]:
    plan = Plan.of(pairs)
    rows: list[Row] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        for workload in WORKLOADS:
            for _ in pool.map(make_run, runs_of_workload(workload, plan)):
                pass
            found: list[QuietPair] = pairs_of_workload(workload, plan)
            parts = [found[at::workers] for at in range(workers)]
            futures = [pool.submit(perform_pairs, workload, plan, part, how) for part in parts]
            for future in futures:
                rows += future.result()
            for row in rows:
                if row["workload"] == workload and row["results"]:
                    print(_line(row), flush=True)
    for total in quiet_totals(rows):
        print(
            f"{total['method']} {total['mode']} {total['scenario']:16} {total['pairs']:4} pairs: "
            f"{total['results_a_pair']} results a pair, {total['with_any']} with any, "
            f"{total['not_exit_0']} not exit 0"
        )
    return rows


def _line(row: Row) -> str:
    head = f"{row['workload']} {row['scenario']} {row['method']} {row['mode']}: {row['results']} results"
    if row["method"] == "paper":
        return head
    return "\n".join([f"{head}, {row['outcome']}", *(f"      {title}" for title in row["titles"])])
