"""`flowdiff windows`: what is in a lake, window by window."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from analyze.report.wording import count, duration
from analyze.sql.browse import windows
from analyze.sql.session import open_session
from flowdiff.options import JsonOption, LakeOption, PeriodOption, period_of
from flowdiff.output import print_json


def command(lake: LakeOption, period: PeriodOption = "all", as_json: JsonOption = False) -> None:
    """List the sealed windows of a lake: requests, categories, mean response time."""
    with open_session(period_of(lake, period)) as session:
        rows = windows(session)
    if as_json:
        print_json(rows)
        return
    table = Table("window (UTC)", box=None, header_style="bold")
    for name in ("requests", "categories", "mean", "errors", "flagged"):
        table.add_column(name, justify="right")
    for row in rows.to_pylist():
        table.add_row(
            f"{row['window_start']:%Y-%m-%d %H:%M}",
            count(row["requests"]),
            count(row["categories"]),
            duration(row["mean_us"]),
            count(row["errors"]),
            count(row["flagged"]),
        )
    Console().print(table)
