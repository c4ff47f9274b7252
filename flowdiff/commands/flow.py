"""`flowdiff flow`: one request as a swim lane in the terminal."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analyze.report.wording import significant, visible
from analyze.sql.browse import StoredFlow, find_flow
from analyze.sql.session import open_session
from flowdiff.cli.flow_drawing import ROWS, print_flow
from flowdiff.cli.options import JsonOption, LakeOption, PeriodOption, period_of
from flowdiff.cli.table_output import print_json_value
from flowdiff.cli.terminal import Terminal

UNSEEN_WIDTH = 120
"""Width, in columns, that is assumed for output of unknown width."""


def command(
    request_id: Annotated[str, typer.Argument(help="Request or trace id, or a prefix of one.")],
    lake: LakeOption,
    period: PeriodOption = "all",
    rows: Annotated[int, typer.Option(min=1, help="Maximum number of bars drawn.")] = ROWS,
    params: Annotated[bool, typer.Option("--params", help="List the low-level parameters as well.")] = False,
    kind: Annotated[
        Literal["spans", "records"] | None,
        typer.Option(help="Source to show where an id occurs in both spans and records."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw one request: when each component worked, and what the response waited for."""
    with open_session(period_of(lake, period)) as session:
        found = find_flow(session, request_id, kind)
    if as_json:
        print_json_value({"flow": found.flow, "structure": found.structure, "params": found.params})
        return
    console = _console()
    print_flow(console, found, rows)
    if params:
        _print_params(console, found)


def _console() -> Console:
    """Console as wide as the terminal or COLUMNS; `UNSEEN_WIDTH` wide without either (a job, a file)."""
    has_width = "COLUMNS" in os.environ or any(
        stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)
    )
    return Terminal() if has_width else Terminal(width=UNSEEN_WIDTH)


def _print_params(console: Console, found: StoredFlow) -> None:
    if not found.params:
        console.print("No parameters are stored with this request.")
        return
    table = Table("node", "parameter", "value", box=None, header_style="bold")
    for row in found.params:
        node = found.structure["nodes"][row["position"]]
        value = row["text"] if row["num"] is None else significant(row["num"], 12)
        cells = (f"{node['component']}/{node['point']}", row["key"], value)
        table.add_row(*(Text(visible(cell)) for cell in cells))
    console.print(table)
