"""Find and run subcommands. One module each under `flowdiff.commands`.

A command module has a function `command`, whose signature is the options and whose docstring is the help. It
imports the needs of its options at the top, and those of the work inside `command`, so that help and
completion are fast. Only the module of the given command is imported at all. Exit codes:
`flowdiff.cli.outcome`.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Annotated, Any, Final

import typer
import typer.core
import typer.main

from flowdiff.cli.lake_word import LakeCommand
from flowdiff.cli.outcome import Leaving, exit_code, open_closed_streams, tolerate_any_text
from flowdiff.cli.terminal import echo
from flowdiff.cli.version import version
from schemas.errors import InputError

COMMANDS: Final = {
    "up": "Start all of flowdiff on this machine: receive spans over OTLP, keep, watch and show them.",
    "import": "Import trace files, or a range of a Kafka topic, into a lake.",
    "ingest": "Ingest Kafka topics, or spans sent over OTLP, into a lake, continuously and exactly once.",
    "top": "Show the state of a running `flowdiff ingest` in a terminal.",
    "config": "Print the settings of `flowdiff ingest` in force: file, environment and flags together.",
    "compare": "Compare two periods: name, rank and explain what changed.",
    "diff": "Compare two files of traces, or two sets of files, without keeping a lake.",
    "watch": "Watch a lake: report each change once, with its place and start, and nothing otherwise.",
    "incidents": "List incidents, show one, accept one as normal, or mark a deployment.",
    "distalyze": "Compare two classes of requests: what diverges, and what response time depends on.",
    "variance": "Find where response times vary, and which edges make them vary.",
    "clusters": "Group requests by what they do and how long, and overlay the groups' call trees.",
    "browse": "Look around in one period: response times, typical requests, what happened when and where.",
    "windows": "List the sealed windows of a lake: requests, categories, mean response time, errors.",
    "categories": "List the categories of a period: requests that took exactly the same path.",
    "flow": "Draw one request: when each component worked, and what the response waited for.",
    "serve": "Serve a lake as web pages: current state, comparisons, incidents, reports, SQL.",
    "mcp": "Offer a lake to an agent as tools of the Model Context Protocol, on standard input and output.",
    "reports": "List the reports stored in a lake: time, periods, verdict, mean, first finding, page.",
    "sql": "Query a lake in SQL.",
    "export": "Export flows as DOT graphs, OTLP spans or native records.",
    "summarize": "Compute the statistics of every window in advance, so that histories are read in seconds.",
    "repair": "Rebuild windows that have late events now, even while they are read and live ingestion runs.",
    "retain": "Remove windows above an age from a lake, also during ingestion and while it is read.",
    "compact": "Rewrite sealed windows of many small files as one file per table, with the same rows.",
    "build": "Build the windows of another lake from the events that live ingestion logs in a lake.",
    "publish": "Publish a lake's tables to an Iceberg catalog, without copying a row.",
    "end-lane": (
        "End a lane whose partitions were deleted for good, and build the windows that waited for it."
    ),
    "calibrate": (
        "Compare ordinary periods of a lake with each other and count the findings, all of which are false."
    ),
    "demo": "Simulate a web shop before and after a deployment, compare both, and write a report.",
    "simulate": "Simulate a storage service or a web shop, and write its traces.",
    "produce": "Write trace files to a Kafka topic, all spans of a request to one partition.",
    "rekey": "Copy a Kafka topic to another one, all spans of a request to one partition.",
    "fsck": "Check a lake against its commits. Exit code 0: nothing is wrong. 1: something is.",
}
"""Name of every subcommand -> first sentence of its docstring (a test compares them), so that listing
commands imports none."""

PANELS: Final = {
    "Compare two periods": (
        "demo",
        "import",
        "windows",
        "compare",
        "diff",
        "reports",
        "flow",
        "browse",
        "sql",
        "serve",
        "mcp",
    ),
    "Watch production": ("up", "ingest", "watch", "incidents"),
    "Set up": ("config", "simulate"),
}
"""Heading of the help -> names of the commands below it, for the commands that are used every day."""
GROUPS: Final = {
    "lake": (
        "Care for a lake: check, repair, condense, expire, publish.",
        (
            *("fsck", "summarize", "repair", "retain", "compact", "publish", "export", "calibrate"),
            *("end-lane", "build"),
        ),
    ),
    "kafka": ("Write to topics of Kafka, and look at what reads them.", ("produce", "rekey", "top")),
    "analyze": (
        "Look deeper, by other methods: paths, variance, groups, divergence.",
        ("categories", "variance", "clusters", "distalyze"),
    ),
}
"""Name of a group -> (its sentence, its commands).

Until 1.0 each command is accepted without the group's name, too.
"""

_OTHERS: Final = "More"
"""Heading, in the help, of groups and of commands that no other list has."""

GC_THRESHOLDS: Final = (50_000, 20, 50)
"""Thresholds of the cyclic garbage collector. Python's default of 700 cost a comparison of 1,600 categories 9
% of its CPU time: the objects of a command live to its end, and are scanned repeatedly.
"""

ARROW_POOL: Final = ("ARROW_DEFAULT_MEMORY_POOL", "system")
"""Environment variable, read when Arrow is imported, and its value: allocate from the heap of the C library.

Arrow's default pool keeps freed memory from numpy and from the system (240 MB in a server after two large
results), and takes a third more CPU in an import and a tenth more in a comparison, in page faults.
"""


class _Commands(typer.core.TyperGroup):
    """Group of subcommands; each is known by name and sentence only, and its module is imported when it is
    run or completed."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Subcommand named by the first argument, whose module is imported now: (name, command, remaining
        arguments)."""
        name, listed, rest = super().resolve_command(ctx, args)
        if listed is None or isinstance(listed, typer.core.TyperGroup):
            return name, listed, rest
        return name, _load(str(listed.name)), rest


def _load(name: str) -> Any:
    app = typer.Typer(add_completion=False)
    command = import_module(module_of(name)).command
    # One line a paragraph: Typer keeps line ends and would wrap each line again.
    paragraphs = (" ".join(part.split()) for part in (command.__doc__ or "").split("\n\n"))
    app.command(name, cls=LakeCommand, help="\n\n".join(paragraphs))(command)
    loaded = typer.main.get_command(app)
    for parameter in loaded.params:
        if isinstance(parameter, typer.core.TyperArgument | typer.core.TyperOption):
            # Square brackets are a configuration section or an option, not markup.
            parameter.help = re.sub(r"\[(?=[a-z#/@])", r"\\[", parameter.help or "")
    return loaded


def module_of(name: str) -> str:
    """Name of the module that implements a subcommand."""
    return f"flowdiff.commands.{name.replace('-', '_')}{'_' if iskeyword(name) else ''}"


def build_app(names: Sequence[str]) -> typer.Typer:
    """Application with the subcommands `names`, and with the groups that contain any of them."""
    app = typer.Typer(
        cls=_Commands,
        name="flowdiff",
        help="What changed in the way a distributed system serves requests, between any two periods.",
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    for panel, of_panel in PANELS.items():
        for name in (name for name in of_panel if name in names):
            app.command(name, help=COMMANDS[name], rich_help_panel=panel)(_stand_in)
    for group, (about, of_group) in GROUPS.items():
        there = [name for name in of_group if name in names]
        below = typer.Typer(cls=_Commands, help=about)
        for name in there:
            below.command(name, help=COMMANDS[name])(_stand_in)
            app.command(name, help=COMMANDS[name], hidden=True)(_stand_in)
        if there:
            app.add_typer(below, name=group, rich_help_panel=_OTHERS)
    placed = {name for of_panel in PANELS.values() for name in of_panel}
    placed |= {name for _, of_group in GROUPS.values() for name in of_group}
    for name in (name for name in names if name not in placed):
        app.command(name, help=COMMANDS[name], rich_help_panel=_OTHERS)(_stand_in)
    return app


def _stand_in() -> None:
    """Placeholder of a subcommand in listings, which do not import it."""
    raise AssertionError("a subcommand is imported before it runs")


def _print_version(wanted: bool) -> None:
    if wanted:
        echo(f"flowdiff {version()}")
        raise typer.Exit


def _options(
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """Options before the subcommand."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `flowdiff` script.

    Raises SystemExit with the exit code; if `arguments` is None, it also ends the process.
    """
    leaving = Leaving() if arguments is None else None
    gc.set_threshold(*GC_THRESHOLDS)
    os.environ.setdefault(*ARROW_POOL)
    open_closed_streams()
    tolerate_any_text()
    given = sys.argv[1:] if arguments is None else list(arguments)
    code = exit_code(lambda: run(given))
    if leaving is not None:
        leaving.code = code
    sys.exit(code)


def run(given: list[str]) -> int | None:
    """Run the subcommand that the arguments `given` name; return its exit code, if it has one.

    Without a subcommand, or for a group, print help.
    """
    for argument in given:
        _refuse_foreign_bytes(argument)
    app = build_app([*COMMANDS])
    asks_nothing = not given or (len(given) == 1 and given[0] in GROUPS)
    shown = [*given, "--help"] if asks_nothing else given
    code: int | None = app(shown, prog_name="flowdiff", standalone_mode=False)
    return 2 if asks_nothing else code


def _refuse_foreign_bytes(argument: str) -> None:
    """Raise InputError for an argument that is not UTF-8, unless a file of that name exists."""
    try:
        argument.encode()
    except UnicodeEncodeError as error:
        if not os.path.lexists(argument):
            raise InputError(f"The argument '{argument}' is not UTF-8.", remedy="Convert it.") from error


if __name__ == "__main__":
    main()
