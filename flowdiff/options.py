"""Options that several subcommands share. Nothing here brings more than the command line needs to start."""

from __future__ import annotations

import time
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from schemas.visible import visible

if TYPE_CHECKING:
    from analyze.scope import LakePeriod

LAKE_HELP = "Lake: a folder, or s3://BUCKET/PREFIX."
LakeOption = Annotated[str, typer.Option("--lake", envvar="FLOWDIFF_LAKE", metavar="LAKE", help=LAKE_HELP)]
PeriodOption = Annotated[
    str, typer.Option(help="Period: all, yesterday, 2026-11-19/1d, START/END, 'last 1h'.")
]
WHERE_HELP = (
    "Only requests for which this holds: \"status != 'ok' and duration > 250ms\". Keys: root, kind (spans, "
    "records), status (ok or the root's error class), inner_status (of the first failure below an ok root), "
    "error (of any node that failed), duration, host, component, or any parameter (service.version); = != < "
    "<= > >= like in, joined by and. Grammar: docs/concepts.md."
)
WhereOption = Annotated[str | None, typer.Option(help=WHERE_HELP)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


class TableFormat(StrEnum):
    """Forms of a query's result."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def period_of(lake: str, period: str, where: str | None = None, *, may_be_empty: bool = False) -> LakePeriod:
    """The period that was asked for, found in the lake; `may_be_empty` as in `resolve`.

    Says on standard error what an interrupted import keeps from it. Raises PeriodError, LakeError.
    """
    from analyze.scope import resolve
    from schemas.periods import parse_period

    asked = parse_period(period, now_ns=time.time_ns(), where=where)
    found = resolve(asked, default_lake=lake, may_be_empty=may_be_empty)
    warn_of_pending([found])
    return found


def warn_of_pending(periods: Iterable[LakePeriod]) -> None:
    """One line on standard error for each lake with an interrupted import."""
    from analyze.scope import pending_note

    for root, note in {found.root.resolve(): pending_note(found) for found in periods}.items():
        if note is not None:
            typer.echo(visible(f"flowdiff: {root.name}: {note}"), err=True)
