"""`flowdiff top`: show a running ingest in a terminal."""

from __future__ import annotations

import contextlib
import signal
import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from flowdiff.cli.terminal import Terminal

if TYPE_CHECKING:
    from flowdiff.live.top_view import Scrape

_EVERY_S = 2.0
"""Interval between two scrapes, s."""
_AROUND_ROWS = 14
"""Number of lines on the screen that are not rows of the two tables."""


def command(
    url: Annotated[
        str, typer.Argument(help="Address of the metrics of `flowdiff ingest`: host:port, or a URL.")
    ] = "127.0.0.1:9464",
    once: Annotated[
        bool,
        typer.Option("--once", help="Print once and end; the default where the output is not a terminal."),
    ] = False,
) -> None:
    """Show the state of a running `flowdiff ingest` in a terminal.

    With the address of a running `flowdiff watch`: the watched service and its open incidents.
    """
    from flowdiff.live.top_view import metrics_url, scrape, view

    console = Terminal()
    page = metrics_url(url)
    now = scrape(page, time.monotonic())
    if once or not console.is_terminal:
        console.print(view(page, now, None))
        return
    _follow(console, page, now)


def _follow(console: Console, page: str, now: Scrape) -> None:
    """Scrape and redraw until Ctrl-C; a scrape that fails is shown, and retried."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from flowdiff.live.top_view import scrape, view
    from schemas.errors import InputError
    from schemas.visible import visible

    before: Scrape | None = None
    # A shell starts background processes with Ctrl-C ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with (
        contextlib.suppress(KeyboardInterrupt),
        Live(view(page, now, None, rows=_rows(console)), console=console, screen=True) as live,
    ):
        while True:
            time.sleep(_EVERY_S)
            try:
                before, now = now, scrape(page, time.monotonic())
            except InputError as error:
                message = Text(visible(error.message), style="bold red")
                live.update(Group(message, view(page, now, before, rows=_rows(console))), refresh=True)
            else:
                live.update(view(page, now, before, rows=_rows(console)), refresh=True)


def _rows(console: Console) -> int:
    return max(1, (console.height - _AROUND_ROWS) // 2)
