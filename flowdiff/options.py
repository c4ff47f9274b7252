"""Options that several subcommands share."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from analyze.load import LakePeriod, resolve
from analyze.periods import parse_period

LakeOption = Annotated[Path, typer.Option("--lake", envvar="FLOWDIFF_LAKE", help="Folder of the lake.")]
PeriodOption = Annotated[
    str, typer.Option(help="Period: all, yesterday, 2026-11-19/1d, START/END, 'last 1h'.")
]
WhereOption = Annotated[
    str | None, typer.Option(help="Only requests for which this holds: \"service.version = 'v2'\".")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def period_of(lake: Path, period: str, where: str | None = None) -> LakePeriod:
    """The period that was asked for, found in the lake. Raises PeriodError, LakeError."""
    return resolve(parse_period(period, now_ns=time.time_ns(), where=where), default_lake=str(lake))
