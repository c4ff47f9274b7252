"""Options of every command that analyses samples and writes a report: filters, where it goes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PeriodsLakeOption = Annotated[
    str | None,
    typer.Option("--lake", envvar="FLOWDIFF_LAKE", metavar="LAKE", help="Lake of periods that name none."),
]
ReferenceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="PERIOD",
        help="Period before: ISO range, `2026-11-19/1d`, `LAKE@range`; several: repeated, `A,B`.",
    ),
]
ProblemOption = Annotated[
    list[str] | None,
    typer.Option("--problem", metavar="PERIOD", help="Period after, written the same way."),
]
PeriodsWhereOption = Annotated[
    str | None,
    typer.Option("--where", help="Filter of all periods: \"service.version = 'v2' and host = 'a'\"."),
]
ReferenceWhereOption = Annotated[
    str | None, typer.Option("--reference-where", help="Filter of the reference only.")
]
ProblemWhereOption = Annotated[
    str | None, typer.Option("--problem-where", help="Filter of the problem period only.")
]
ReportJsonOption = Annotated[
    str | None, typer.Option("--json", help="Write the report as JSON here too; `-` prints it.")
]
ReportHtmlOption = Annotated[
    Path | None, typer.Option("--html", help="Write the page here too; `-` prints it.")
]
SaveOption = Annotated[
    bool, typer.Option("--save/--no-save", help="Keep the report in the lake, under reports/.")
]
OpenOption = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]


def own_filters(reference_where: str | None, problem_where: str | None) -> dict[str, str]:
    """Filters of single samples, by the sample's name."""
    asked = (("reference", reference_where), ("problem", problem_where))
    return {name: text for name, text in asked if text is not None}
