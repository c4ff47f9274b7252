"""Options that several subcommands share."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from analyze.scope import LakePeriod, pending_note, resolve
from schemas.periods import parse_period

LakeOption = Annotated[Path, typer.Option("--lake", envvar="FLOWDIFF_LAKE", help="Folder of the lake.")]
PeriodOption = Annotated[
    str, typer.Option(help="Period: all, yesterday, 2026-11-19/1d, START/END, 'last 1h'.")
]
WhereOption = Annotated[
    str | None, typer.Option(help="Only requests for which this holds: \"service.version = 'v2'\".")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def period_of(lake: Path, period: str, where: str | None = None, *, may_be_empty: bool = False) -> LakePeriod:
    """The period that was asked for, found in the lake; `may_be_empty` as in `resolve`.

    Says on standard error what an interrupted import keeps from it. Raises PeriodError, LakeError.
    """
    asked = parse_period(period, now_ns=time.time_ns(), where=where)
    found = resolve(asked, default_lake=str(lake), may_be_empty=may_be_empty)
    warn_of_pending([found])
    return found


def warn_of_pending(periods: Iterable[LakePeriod]) -> None:
    """One line on standard error for each lake with an interrupted import."""
    for root, note in {found.root.resolve(): pending_note(found) for found in periods}.items():
        if note is not None:
            typer.echo(f"flowdiff: {root.name}: {note}", err=True)
