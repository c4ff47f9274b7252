"""`flowdiff windows`: list a lake window by window."""

from __future__ import annotations

import time
from typing import Annotated, Final

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
"""Maximum number of windows listed without a period, the latest ones: a day of five-minute windows."""


def command(
    context: typer.Context,
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
    """List the sealed windows of a lake: requests, categories, mean response time, errors.

    Only commits are read, which makes it fast. They hold the exact number of categories up to 63; above, `~`
    marks an estimate with a standard error of 13 %. Exact counts: flowdiff sql -c "from windows". Windows
    that are only partly in the period are listed whole.
    """
    import pyarrow.compute as pc

    from analyze.report.text_table import Heading, Kind, each
    from analyze.report.wording import count, duration, percent
    from analyze.scope import Lakes
    from flowdiff.cli.listing import print_flags, print_rows
    from flowdiff.cli.table_output import print_json

    at_most = LISTED if period is None else None
    lakes = Lakes(lake, provisional=provisional_folder(context) if unsealed else None)
    found = lakes.counts(parse_period(lakes.dated(period or "all"), now_ns=time.time_ns()), at_most=at_most)
    warn_of_pending([found.found])
    if found.earlier:
        say_notes([f"the last {LISTED} windows; {count(found.earlier)} before them: --period all lists all."])
    if as_json:
        print_json(found.windows)
        return
    numbers = ("requests", "categories", "mean", "errors", "error rate", "flagged")
    columns = [Heading("window (UTC)", Kind.EXACT), *(Heading(name, Kind.NUMBER) for name in numbers)]
    table = found.windows
    of = {name: table[name].to_pylist() for name in table.column_names if name != "window_start"}
    texts = (
        pc.utf8_slice_codeunits(table["window_start"].cast("string"), 0, len("2026-11-26 09:05")).to_pylist(),
        each(count, of["requests"]),
        each(_categories, [*zip(of["categories"], of["categories_estimated"], strict=True)]),
        each(duration, of["mean_us"]),
        each(count, of["errors"]),
        each(percent, of["error_rate"]),
        each(count, of["flagged"]),
    )
    print_rows(columns, [*zip(*texts, strict=True)])
    print_flags(found.flags, pc.sum(found.windows["requests"]).as_py())


def _categories(counted: tuple[int, bool]) -> str:
    """Number of categories as text, marked if it is an estimate."""
    from analyze.report.wording import about, count

    number, is_estimate = counted
    return (about if is_estimate else count)(number)
