"""Write text to a terminal or a Python prompt; all output of commands and `repr` goes through here.

Names come from traces, so they may contain characters that control a terminal, reverse text or are invisible.
Everything printed here is passed through `visible`; styles are added afterwards. Code that lays out columns
applies `visible` to the cells itself, since the picture of a control character takes a cell; it is
idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from schemas.visible import escaped, visible, visible_lines


class Terminal(Console):
    """A rich console that makes control characters in texts visible; drawing and styles are unchanged."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as rich does, with control characters in texts made visible. O(characters)."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible_lines(segment.text), segment.style)


def echo(line: str = "", *, err: bool = False) -> None:
    """Print one line on standard output, or on standard error; line ends within it are made visible."""
    typer.echo(visible(line), err=err)


def echo_lines(text: str) -> None:
    """Print several lines on standard output, control characters made visible."""
    typer.echo(visible_lines(text), nl=not text.endswith("\n"))


def echo_json(text: str) -> None:
    """Print JSON text; control and invisible characters are escaped as `\u200b`, so that a JSON reader
    restores them."""
    typer.echo(escaped(text, keep_line_ends=True))


def drawn(draw: Callable[[Console], Any], width: int) -> str:
    """Text that `draw` prints on a console of `width` cells, without styles, for a prompt or a file."""
    console = Terminal(width=width, color_system=None, force_jupyter=False)
    with console.capture() as captured:
        draw(console)
    return captured.get()
