"""`flowdiff sql`: DuckDB on a lake, read only."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analyze.report.wording import count, visible
from analyze.sql.catalog import VIEWS, relation
from analyze.sql.session import Session, open_session
from flowdiff.options import LakeOption, PeriodOption, period_of
from flowdiff.output import TableFormat, write_table
from schemas.errors import ConfigError, FlowdiffError, QueryError

SHELL_ROWS = 100
"""Rows a terminal shows; the rest is counted."""

_SUFFIXES = {".csv": TableFormat.CSV, ".json": TableFormat.JSON, ".parquet": TableFormat.PARQUET}

LEGIBLE = 12
"""Characters that a column needs at the least, if it has as many."""

_HELP = """\
Write a SELECT and end it with a semicolon. The views of this lake:
{views}
.schema VIEW   columns and their meaning
.help          this text
.quit          leave (or Ctrl-D)"""


def command(
    lake: LakeOption,
    query: Annotated[str | None, typer.Option("-c", "--command", help="One query; else a shell.")] = None,
    period: PeriodOption = "all",
    format_: Annotated[TableFormat, typer.Option("--format", help="Form of the result.")] = TableFormat.TABLE,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File for the result.")] = None,
    memory: Annotated[str, typer.Option(help="Memory limit of DuckDB.")] = "2GB",
) -> None:
    """Query a lake in SQL. The views and every column: docs/sql.md, or .help in the shell."""
    format_ = _form(format_, output)
    with open_session(period_of(lake, period, may_be_empty=True), memory=memory) as session:
        if query is not None:
            _answer(session, query, format_, output)
        elif sys.stdin.isatty():
            _shell(session, format_)
        else:
            _answer(session, _piped(), format_, output)


def _form(given: TableFormat, output: Path | None) -> TableFormat:
    """The form of the result; a file tells its own by its name where none is given. Raises ConfigError."""
    if given is not TableFormat.TABLE or output is None:
        return given
    form = _SUFFIXES.get(output.suffix.lower())
    if form is None:
        raise ConfigError(
            f"The name of '{output}' does not tell its format.",
            remedy=f"End it in {', '.join(_SUFFIXES)}, or give --format.",
        )
    return form


def _piped() -> str:
    """The query on standard input. Raises QueryError where there is none."""
    query = sys.stdin.read()
    if not query.strip():
        raise QueryError("Standard input holds no query.", remedy="Give one with -c, or pipe one in.")
    return query


def _answer(session: Session, query: str, form: TableFormat, output: Path | None) -> None:
    if form is TableFormat.TABLE:
        _print_rows(session, query)
    else:
        write_table(session.stream(query), form, output)


def _print_rows(session: Session, query: str) -> None:
    """The first rows: as a table where its columns fit the terminal, else one row below the other."""
    console = Console()
    reader = session.stream(query)
    names = [visible(name) for name in reader.schema.names]
    rows: list[list[str]] = []
    total = 0
    for batch in reader:
        total += batch.num_rows
        shown = [column.to_pylist() for column in batch.slice(0, SHELL_ROWS - len(rows)).columns]
        rows += [
            ["" if value is None else visible(str(value)) for value in row]
            for row in zip(*shown, strict=True)
        ]
    widths = [max([len(name), *(len(row[i]) for row in rows)]) for i, name in enumerate(names)]
    if sum(min(width, LEGIBLE) + 3 for width in widths) <= console.width:
        table = Table(box=None, header_style="bold")
        for name, width in zip(names, widths, strict=True):
            table.add_column(Text(name), min_width=min(width, LEGIBLE), overflow="ellipsis", no_wrap=True)
        for row in rows:
            table.add_row(*(Text(value) for value in row))
        console.print(table)
    else:
        _print_records(console, names, rows)
    rest = f", {count(total - len(rows))} more not shown" if total > len(rows) else ""
    console.print(f"{count(total)} {'row' if total == 1 else 'rows'}{rest}", style="dim")


def _print_records(console: Console, names: list[str], rows: list[list[str]]) -> None:
    for number, row in enumerate(rows, 1):
        console.rule(Text(f"row {number}"), align="left", style="dim")
        table = Table(box=None, show_header=False)
        table.add_column(style="bold", no_wrap=True, min_width=max(map(len, names), default=1))
        table.add_column(overflow="ellipsis", no_wrap=True)
        for name, value in zip(names, row, strict=True):
            table.add_row(Text(name), Text(value))
        console.print(table)


def _shell(session: Session, form: TableFormat) -> None:
    """Read queries until the end; an error costs its query only."""
    import readline  # noqa: F401 - gives input() line editing and history

    console = Console()
    console.print(f"Views: {', '.join(VIEWS)}. .help tells more.", style="dim")
    pending = ""
    while True:
        try:
            line = input("     ...> " if pending else "flowdiff> ")
        except EOFError:
            console.print()
            return
        except KeyboardInterrupt:
            pending = ""
            console.print()
            continue
        if not pending and line.startswith("."):
            if line.strip() in (".quit", ".exit"):
                return
            _dot_command(console, line)
            continue
        pending = f"{pending}\n{line}" if pending else line
        if not pending.strip():
            pending = ""
        elif pending.rstrip().endswith(";"):
            text, pending = pending, ""
            try:
                _answer(session, text, form, None)
            except FlowdiffError as error:
                console.print(Text(visible(str(error)), style="red"))


def _dot_command(console: Console, line: str) -> None:
    word, _, name = line.strip().partition(" ")
    name = name.strip()
    if word == ".schema":
        _print_schema(console, name)
    elif word == ".help":
        views = "\n".join(f"  {name:<12} {relation(name).doc}" for name in VIEWS)
        console.print(_HELP.format(views=views), markup=False, highlight=False)
    else:
        console.print(Text(visible(f"There is no command {word}; .help lists them."), style="red"))


def _print_schema(console: Console, name: str) -> None:
    if name not in VIEWS:
        told = f"There is no view '{name}'" if name else "Name a view"
        console.print(Text(visible(f"{told}: {', '.join(VIEWS)}."), style="red"))
        return
    view = relation(name)
    console.print(view.doc, markup=False)
    table = Table("column", "type", "meaning", box=None, header_style="bold")
    for column in view.columns:
        # As text: `VARCHAR[]` is no rich markup.
        table.add_row(Text(column.name), Text(column.type), Text(column.doc))
    console.print(table)
