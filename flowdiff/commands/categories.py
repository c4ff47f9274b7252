"""`flowdiff categories`: the paths that requests took."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analyze.report.wording import count, duration, short, significant, visible
from analyze.sql.browse import CategorySort, categories
from analyze.sql.session import open_session
from flowdiff.options import JsonOption, LakeOption, PeriodOption, period_of
from flowdiff.output import print_json


def command(
    lake: LakeOption,
    period: PeriodOption = "all",
    sort: Annotated[
        CategorySort, typer.Option(help="Measure to sort by; `time` is requests times mean.")
    ] = CategorySort.TIME,
    top: Annotated[int, typer.Option(min=1, help="Rows to show.")] = 20,
    root: Annotated[str | None, typer.Option(help="Only this root type, component/point.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the categories of a period: requests that took exactly the same path."""
    with open_session(period_of(lake, period)) as session:
        rows, total = categories(session, sort, top=top, root=root)
    if as_json:
        print_json(rows)
        return
    console = Console()
    if rows.num_rows == 0:
        told = "" if root is None else f" of the root type '{root}'; root types are written component/point"
        console.print(Text(visible(f"This period holds no category{told}.")))
        return
    table = Table("category", box=None, header_style="bold", expand=True)
    for name in ("requests", "mean", "p95", "C²", "nodes"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("root", ratio=1, overflow="ellipsis", no_wrap=True)
    for row in rows.to_pylist():
        table.add_row(
            short(row["category"]),
            count(row["requests"]),
            duration(row["mean_us"]),
            duration(row["p95_us"]),
            "–" if row["c2"] is None else significant(row["c2"], 2),
            count(row["n_nodes"]),
            Text(visible(row["root"])),
        )
    console.print(table)
    if total > rows.num_rows:
        console.print(f"{rows.num_rows} of {count(total)} categories; --top shows more.", style="dim")
