"""`flowdiff windows`: what is in a lake, window by window."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from flowdiff.cli.options import (
    PERIOD_HELP,
    JsonOption,
    LakeOption,
    UnsealedOption,
    provisional_folder,
    say_notes,
    warn_of_pending,
)
from schemas.periods import parse_period

LISTED: Final = 288
"""Windows listed where no period is given, the last ones: a day of five minutes each."""


def command(
    lake: LakeOption,
    period: Annotated[
        str | None,
        typer.Option(
            "--period",
            help=f"{PERIOD_HELP} Windows that it touches are listed whole.",
            show_default=f"the last {LISTED} windows",
        ),
    ] = None,
    unsealed: UnsealedOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the sealed windows of a lake: requests, categories, mean response time, errors."""
    import pyarrow.compute as pc

    from analyze.report.wording import count, duration, percent
    from analyze.scope import Lakes
    from flowdiff.cli.listing import Heading, Kind, print_flags, print_rows
    from flowdiff.cli.table_output import print_json

    at_most = LISTED if period is None else None
    lakes = Lakes(lake, provisional=provisional_folder() if unsealed else None)
    found = lakes.counts(parse_period(period or "all", now_ns=time.time_ns()), at_most=at_most)
    warn_of_pending([found.found])
    if found.earlier:
        say_notes([f"the last {LISTED} windows; {count(found.earlier)} before them: --period all lists all."])
    if as_json:
        print_json(found.windows)
        return
    numbers = ("requests", "categories", "mean", "errors", "error rate", "flagged")
    columns = [Heading("window (UTC)", Kind.EXACT), *(Heading(name, Kind.NUMBER) for name in numbers)]
    shown: tuple[Callable[[Any], str], ...] = (
        lambda at: f"{at:%Y-%m-%d %H:%M}",
        *(count, count, duration, count, percent, count),
    )
    cells = (map(show, column.to_pylist()) for show, column in zip(shown, found.windows.columns, strict=True))
    print_rows(columns, [*zip(*cells, strict=True)])
    print_flags(found.flags, pc.sum(found.windows["requests"]).as_py())
