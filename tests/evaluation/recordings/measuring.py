"""All comparisons of some recordings, by two processes: `make evaluate REAL=FOLDER`."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from evaluation.recordings.comparing import Asked, Mode, Settings, perform
from evaluation.recordings.kept_lakes import lake_of
from evaluation.recordings.labelled import Fault, read_recordings
from evaluation.recordings.verdicts import Row, fault_row, line, lines_below, quiet_row, total_lines, totals

PAIRS_A_TASK = 12
"""Quiet pairs that a process compares in a row; the stretches between them are loaded once a process."""

Part = Literal["faults", "quiet"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to measure."""

    folder: Path
    methods: tuple[str, ...]
    modes: tuple[Mode, ...] = ("a", "b")
    parts: tuple[Part, ...] = ("faults", "quiet")
    case: str = ""
    """Only faults whose id, or pairs whose periods, hold this text."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the methods that differ from their defaults."""
    exact: bool = False
    """Load quiet pairs one by one."""
    workers: int = 2
    pairs: int | None = None
    """So many quiet pairs of a recording, evenly spaced; None: all."""
    shown: int = 0
    """Results shown below every line; below those of quiet pairs and of faults that are not first, 3."""


Task = list[tuple[Asked, Fault | None]]


def measure(wanted: Wanted, root: Path) -> list[Row]:
    """Make the comparisons, print a line each as they come, then the totals."""
    began = time.monotonic()
    rows = []
    for row in compared(wanted, root):
        rows.append(row)
        _tell(row, wanted.shown)
    print()
    for total in totals(rows):
        print("\n".join(total_lines(total)))
    print(f"{len(rows)} comparisons in {time.monotonic() - began:.0f} s", file=sys.stderr)
    return rows


def compared(wanted: Wanted, root: Path) -> Iterator[Row]:
    """Make the comparisons; rows by recording, mode, time."""
    tasks = list(_tasks(wanted, root))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max(1, min(wanted.workers, len(tasks))), mp_context=context) as pool:
        futures: list[Future[list[Row]]] = [
            pool.submit(_perform, task, wanted.methods, wanted.settings) for task in tasks
        ]
        for future in futures:
            yield from future.result()


def _tell(row: Row, shown: int) -> None:
    wrong = row["results"] > 0 if row["kind"] == "quiet" else row["rank"] != 1
    print("\n".join([line(row), *lines_below(row, max(shown, 3 if wrong else 0))]), flush=True)


def _tasks(wanted: Wanted, root: Path) -> Iterator[Task]:
    for recording in read_recordings(wanted.folder):
        lake = lake_of(recording, root)
        for mode in wanted.modes:
            if "faults" in wanted.parts:
                for fault in recording.faults:
                    if wanted.case in fault.id and (fault.reference is not None or mode == "a"):
                        asked = Asked(recording, lake, mode, fault.reference, fault.problem, quiet=False)
                        yield [(asked, fault)]
            if "quiet" in wanted.parts:
                pairs: Task = [
                    (Asked(recording, lake, mode, one, other, quiet=True, exact=wanted.exact), None)
                    for one, other in recording.quiet_pairs(wanted.pairs)
                    if wanted.case in f"{recording.name} {one} {other}"
                ]
                yield from (pairs[at : at + PAIRS_A_TASK] for at in range(0, len(pairs), PAIRS_A_TASK))


def _perform(task: Task, methods: Sequence[str], settings: Settings) -> list[Row]:
    return [
        quiet_row(asked, found) if fault is None else fault_row(asked, fault, found)
        for asked, fault in task
        for found in perform(asked, methods, settings)
    ]
