"""Write text to a terminal or a Python prompt: the only place of flowdiff that does, for commands and `repr`.

Names come from traces, so they may hold what steers a terminal, turns text around or hides. Whatever is
printed here goes through `visible`; styles are added behind it. Who lays out columns applies `visible` to
the cells itself, as the picture of a control character takes a cell; to apply it twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from schemas.visible import escaped, visible, visible_lines


class Terminal(Console):
    """A console of rich whose texts steer nothing; what it draws and how it is styled stays."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as rich does, every text safe. O(characters)."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible_lines(segment.text), segment.style)


def echo(line: str = "", *, err: bool = False) -> None:
    """Print one line on standard output, or on standard error; a line end within it is shown as a picture."""
    typer.echo(visible(line), err=err)


def echo_lines(text: str) -> None:
    """Print lines of our own on standard output."""
    typer.echo(visible_lines(text), nl=not text.endswith("\n"))


def echo_json(text: str) -> None:
    """Print JSON, in which a character that steers or hides is spelled `\\u200b`: a reader gets it back."""
    typer.echo(escaped(text, keep_line_ends=True))


def drawn(draw: Callable[[Console], Any], width: int) -> str:
    """Text that `draw` prints on a console `width` cells wide, without styles: for a prompt, or a file."""
    console = Terminal(width=width, color_system=None, force_jupyter=False)
    with console.capture() as captured:
        draw(console)
    return captured.get()
