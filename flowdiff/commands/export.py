"""`flowdiff export`: flows of a period, a category or a report's findings, for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from flowdiff.cli.options import LakeOption, PeriodOption, WhereOption, period_of
from flowdiff.cli.terminal import echo

if TYPE_CHECKING:
    from analyze.export.flows import Exported


def command(
    lake: LakeOption,
    format_: Annotated[
        Literal["dot", "otlp", "native"],
        typer.Option(
            "--format",
            help="Output format: dot (the original Spectroscope's input), otlp (JSON lines), native "
            "(NDJSON).",
        ),
    ],
    period: PeriodOption = "all",
    where: WhereOption = None,
    category: Annotated[
        str | None,
        typer.Option(help="Export this category only: its key in the lake or a report, or a prefix of it."),
    ] = None,
    report: Annotated[
        str | None,
        typer.Option(
            help="Export the requests listed by this report only: its id, a prefix of it, or its folder."
        ),
    ] = None,
    sample: Annotated[
        str | None, typer.Option(help="Export this sample of the report only: reference or problem.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Output file. Default, and `-`: standard output.")
    ] = None,
) -> None:
    """Export flows as DOT graphs, OTLP spans or native records."""
    from analyze.export.flows import AskedFlows, export_dot, export_native, export_otlp
    from flowdiff.cli.output import open_output

    writers = {"dot": export_dot, "otlp": export_otlp, "native": export_native}
    found = period_of(lake, period, where)
    with open_output(output) as out:
        done = writers[format_](found, AskedFlows(category, report, sample), out)
    echo(_summary(done), err=True)


def _summary(done: Exported) -> str:
    parts = [f"{done.flows:,} flows exported."]
    if done.without_edge:
        parts.append(f"{done.without_edge:,} of a single node left out: the original needs an edge.")
    if done.not_here:
        parts.append(f"{done.not_here:,} more that the report lists are not in this lake and period.")
    return " ".join(parts)
