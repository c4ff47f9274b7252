"""The command line. One module a subcommand under `flowdiff.commands`; this file finds and runs them.

A command module has a function `command`, whose signature is the options and whose docstring is the help.
Expected failures (`FlowdiffError`) become one line on stderr and an exit code; a bug keeps its traceback.
Both exit with 2, like a wrong option: 1 is for what a command found (mutations, errors in a lake).
"""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Final

import typer

from flowdiff.streams import print_error, tolerate_any_text
from flowdiff.version import version
from schemas.errors import FlowdiffError

COMMANDS: Final = {
    "import": "import_",
    "compare": "compare",
    "windows": "windows",
    "categories": "categories",
    "flow": "flow",
    "sql": "sql",
    "export": "export",
    "simulate": "simulate",
    "fsck": "fsck",
}
"""Name of each subcommand and its module."""


BUG_EXIT_CODE: Final = 2
GC_THRESHOLDS: Final = (50_000, 20, 50)
"""New objects between collections of cycles. Python's own 700 cost a comparison of 1,600 categories 9 % of
its CPU time: what commands make lives to the end, and is looked through again and again."""


def build_app(names: Sequence[str]) -> typer.Typer:
    """The application with some subcommands; modules of the others are not imported."""
    app = typer.Typer(
        name="flowdiff",
        help="What changed in the way a distributed system serves requests, between any two periods.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    for name in names:
        module = import_module(f"flowdiff.commands.{COMMANDS[name]}")
        # A command whose options depend on its arguments brings a class of its own.
        app.command(name, cls=getattr(module, "COMMAND_CLASS", None))(module.command)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"flowdiff {version()}")
        raise typer.Exit


def _options(
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """Options before the subcommand."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `flowdiff` script. Always ends in SystemExit."""
    gc.set_threshold(*GC_THRESHOLDS)
    tolerate_any_text()
    given = sys.argv[1:] if arguments is None else list(arguments)
    # Only what is asked for is imported: a command starts in a fraction of the time of all of them.
    if given[:1] == ["--version"]:
        names = []
    elif given and given[0] in COMMANDS:
        names = [given[0]]
    else:
        names = [*COMMANDS]
    try:
        build_app(names)(given)
    except FlowdiffError as error:
        print_error(error)
        sys.exit(error.exit_code)
    except Exception:  # noqa: BLE001 - nothing is hidden; Python's own exit code means "mutations found"
        traceback.print_exc()
        sys.exit(BUG_EXIT_CODE)


if __name__ == "__main__":
    main()
