"""`flowdiff export`: flows of a period or a category, for other tools."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from analyze.export.flows import export_dot, export_native, export_otlp
from flowdiff.options import LakeOption, PeriodOption, WhereOption, period_of
from flowdiff.output import open_output


class ExportFormat(StrEnum):
    """Forms of exported flows."""

    DOT = "dot"
    OTLP = "otlp"
    NATIVE = "native"


_WRITERS = {ExportFormat.DOT: export_dot, ExportFormat.OTLP: export_otlp, ExportFormat.NATIVE: export_native}


def command(
    lake: LakeOption,
    format_: Annotated[
        ExportFormat,
        typer.Option(
            "--format", help="dot (the original Spectroscope's input), otlp (JSON lines), native (NDJSON)."
        ),
    ],
    period: PeriodOption = "all",
    where: WhereOption = None,
    category: Annotated[
        str | None,
        typer.Option(help="Only this category: its key, as a lake or a report has it, or the beginning."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File; else standard output.")] = None,
) -> None:
    """Write flows out again: as DOT graphs, as OTLP spans or as native records."""
    found = period_of(lake, period, where)
    with open_output(output) as out:
        written = _WRITERS[format_](found, category, out)
    print(f"{written:,} flows exported.", file=sys.stderr)
