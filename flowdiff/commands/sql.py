"""`flowdiff sql`: query a lake with DuckDB, read only."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from analyze.report.text_table import Heading, Kind
from flowdiff.cli.listing import print_drawing, print_rows, print_sentence
from flowdiff.cli.options import (
    LakeOption,
    PeriodOption,
    TableFormat,
    UnsealedOption,
    named_values,
    provisional_folder,
    say_notes,
)
from flowdiff.cli.terminal import echo, echo_lines
from schemas.errors import ConfigError, FlowdiffError, QueryError
from schemas.windows import NS_PER_SECOND, parse_duration_ns

if TYPE_CHECKING:
    from analyze.sql.session import Values
    from analyze.sql.session_process import SessionProcess

SHELL_ROWS: Final = 100
"""Maximum number of rows shown on a terminal; of the rest only the number is shown."""
PLAN: Final = ["explain_key", "explain_value"]
"""Columns of the result of EXPLAIN, which is one drawing over many lines."""

_SUFFIXES: Final = {".csv": TableFormat.CSV, ".json": TableFormat.JSON, ".parquet": TableFormat.PARQUET}

_HELP: Final = """\
Write a SELECT and end it with a semicolon; Ctrl-C stops it. The views of this lake:
{views}
.schema VIEW   columns and their meaning
.help          this text
.quit          leave (or Ctrl-D)
Queries to copy: docs/internals/recipes.md"""


def command(
    context: typer.Context,
    lake: LakeOption,
    query: Annotated[
        str | None, typer.Option("-c", "--command", help="Query to run. Default: an interactive shell.")
    ] = None,
    period: PeriodOption = "all",
    unsealed: UnsealedOption = False,
    attach: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FILE",
            help="Attach a CSV, JSON or Parquet file as a table, NAME=FILE; may be repeated.",
        ),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Value of :name in the query, NAME=VALUE; may be repeated."),
    ] = None,
    format_: Annotated[
        TableFormat, typer.Option("--format", help="Format of the result.")
    ] = TableFormat.TABLE,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File for the result; `-` prints it.")
    ] = None,
    memory: Annotated[str, typer.Option(help="Memory limit of DuckDB.")] = "2GB",
    timeout: Annotated[
        str, typer.Option(help="Time limit of a query; reading its rows is not counted.")
    ] = "5m",
) -> None:
    """Query a lake in SQL.

    Views and columns: docs/sql.md, or .help in the shell. Examples to copy: docs/internals/recipes.md.
    """
    from analyze.sql.session_process import SessionProcess
    from flowdiff.query_comparisons import QueryComparisons, with_spinner

    output = None if str(output) == "-" else output
    format_ = _form(format_, output)
    seconds, now_ns = _seconds(timeout), time.time_ns()
    provisional = provisional_folder(context) if unsealed else None
    started = SessionProcess(
        lake,
        period,
        now_ns=now_ns,
        memory=memory,
        seconds=seconds,
        provisional=provisional,
        attached={name: Path(file) for name, file in named_values("--attach", attach, filled=True).items()},
        may_fork=True,
        comparing=with_spinner(QueryComparisons(lake, now_ns)),
    )
    values = named_values("--param", param)
    with closing(started) as session:
        say_notes(session.notes)
        if query is not None:
            _answer(session, query, values, format_, output)
        elif sys.stdin.isatty():
            _shell(session, values, format_)
        else:
            _answer(session, _piped(), values, format_, output)


def _form(given: TableFormat, output: Path | None) -> TableFormat:
    """Output format: the given one, else by the suffix of the file. Raises ConfigError."""
    if given is not TableFormat.TABLE or output is None:
        return given
    form = _SUFFIXES.get(output.suffix.lower())
    if form is None:
        raise ConfigError(
            f"The name of '{output}' does not say its format.",
            remedy=f"End it in {', '.join(_SUFFIXES)}, or give --format.",
        )
    return form


def _seconds(timeout: str) -> float:
    """Seconds of the duration in --timeout. Raises ConfigError if it is invalid."""
    try:
        return parse_duration_ns(timeout) / NS_PER_SECOND
    except ConfigError as error:
        raise ConfigError(f"--timeout: {error.message}", remedy="Write 30s, 5m or 2h.") from error


def _piped() -> str:
    """Read the query from standard input. Raises QueryError if it is empty."""
    try:
        query = sys.stdin.read()
    except UnicodeDecodeError as error:
        raise QueryError("The query on standard input is not UTF-8.", remedy="Convert it.") from error
    except OSError as error:
        raise QueryError("Standard input holds no query.", remedy="Give one with -c.") from error
    if not query.strip():
        raise QueryError("Standard input holds no query.", remedy="Give one with -c, or pipe one in.")
    return query


def _answer(
    session: SessionProcess, query: str, values: Values, form: TableFormat, output: Path | None
) -> None:
    if form is TableFormat.TABLE:
        _print_rows(session, query, values)
    else:
        from flowdiff.cli.table_output import write_table

        write_table(session.stream(query, values), form, output)


def _print_rows(session: SessionProcess, query: str, values: Values) -> None:
    """Print the first rows of a result, and the number of all rows."""
    from analyze.report.wording import count

    found = session.first_rows(query, values, SHELL_ROWS)
    if found.names == PLAN:
        for _, text in found.rows:
            print_drawing(text)
        return
    headings = map(Heading, found.names, map(Kind, found.kinds))
    print_rows([*headings], found.rows)
    rest = found.total - len(found.rows)
    more = f", {count(rest)} more not shown" if rest else ""
    print_sentence(f"{count(found.total)} {'row' if found.total == 1 else 'rows'}{more}")


def _shell(session: SessionProcess, values: Values, form: TableFormat) -> None:
    """Read and run queries until the end of input; an error or Ctrl-C only ends the query that runs."""
    import readline  # noqa: F401 - gives input() line editing and history

    from analyze.sql.catalog import VIEWS

    print_sentence(f"Views: {', '.join(VIEWS)}. .help says more.")
    pending = ""
    while True:
        try:
            line = input("     ...> " if pending else "flowdiff> ")
        except EOFError:
            echo()
            return
        except KeyboardInterrupt:
            pending = ""
            echo()
            continue
        if not pending and line.startswith("."):
            if line.strip() in (".quit", ".exit"):
                return
            _dot_command(line)
            continue
        pending = f"{pending}\n{line}" if pending else line
        if not pending.strip():
            pending = ""
        elif pending.rstrip().endswith(";"):
            text, pending = pending, ""
            try:
                _answer(session, text, values, form, None)
            except FlowdiffError as error:
                print_sentence(str(error), style="red")
            except KeyboardInterrupt:
                print_sentence("Interrupted.", style="red")


def _dot_command(line: str) -> None:
    from analyze.sql.catalog import VIEWS, relation

    word, _, name = line.strip().partition(" ")
    name = name.strip()
    if word == ".schema":
        _print_schema(name)
    elif word == ".help":
        views = "\n".join(f"  {name:<12} {relation(name).doc}" for name in VIEWS)
        echo_lines(_HELP.format(views=views))
    else:
        print_sentence(f"There is no command {word}; .help lists them.", style="red")


def _print_schema(name: str) -> None:
    from analyze.sql.catalog import VIEWS, relation

    if name not in VIEWS:
        request = f"There is no view '{name}'" if name else "Name a view"
        print_sentence(f"{request}: {', '.join(VIEWS)}.", style="red")
        return
    view = relation(name)
    echo_lines(view.doc)
    columns = [Heading("column", Kind.EXACT), Heading("type", Kind.EXACT), Heading("meaning", Kind.PROSE)]
    print_rows(columns, [[column.name, column.type, column.doc] for column in view.columns])
