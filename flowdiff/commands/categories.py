"""`flowdiff categories`: the paths that requests took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import typer

from flowdiff.cli.options import JsonOption, LakeOption, PeriodOption, period_of


def command(
    lake: LakeOption,
    period: PeriodOption = "all",
    sort: Annotated[
        Literal["time", "requests", "mean", "c2"],
        typer.Option(help="Measure to sort by; `time` is the number of requests times their mean."),
    ] = "time",
    top: Annotated[int, typer.Option(min=1, help="Maximum number of rows shown.")] = 20,
    root: Annotated[str | None, typer.Option(help="Show this root type (component/point) only.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the categories of a period: requests that took exactly the same path."""
    from analyze.report.text_table import Heading, Kind
    from analyze.report.wording import count
    from analyze.sql.browse import categories, flagged
    from analyze.sql.session import open_session
    from flowdiff.cli.listing import print_flags, print_rows, print_sentence
    from flowdiff.cli.table_output import print_json

    with open_session(period_of(lake, period)) as session:
        rows, total = categories(session, sort, top=top, root=root)
        flags, requests = flagged(session, root=root)
    if as_json:
        print_json(rows)
        return
    if rows.num_rows == 0:
        narrowed = (
            "" if root is None else f" of the root type '{root}'; root types are written component/point"
        )
        print_sentence(f"This period holds no category{narrowed}.")
        return
    print_sentence(f"By {_SORTED[sort]}, most first:")
    numbers = [Heading(name, Kind.NUMBER) for name in ("requests", "mean", "p95", "C²", "nodes")]
    print_rows(
        [Heading("category", Kind.EXACT), *numbers, Heading("root")],
        [_cells(row) for row in rows.to_pylist()],
    )
    if total > rows.num_rows:
        print_sentence(f"{rows.num_rows} of {count(total)} categories; --top shows more.")
    print_flags(flags, requests)


_SORTED: Final = {
    "time": "time in sum (requests × mean; --sort has others)",
    "requests": "requests",
    "mean": "mean response time",
    "c2": "C²",
}


def _cells(row: Mapping[str, Any]) -> list[str]:
    from analyze.report.wording import count, duration, short, significant

    return [
        short(row["category"]),
        count(row["requests"]),
        duration(row["mean_us"]),
        duration(row["p95_us"]),
        "–" if row["c2"] is None else significant(row["c2"], 2),
        count(row["n_nodes"]),
        row["root"],
    ]
