"""Show progress on a terminal or in a notebook, nothing elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from flowdiff.cli.terminal import Terminal
from schemas.visible import visible


class Counted(Protocol):
    """Callback that is told the progress of some work."""

    def __call__(self, done: int, total: int, what: str | None = None, /) -> None:
        """Report the amount done, the total, and, if it changed, a description of the work."""
        ...


@contextmanager
def progress(*columns: ProgressColumn, shown: bool = True) -> Iterator[Progress]:
    """Progress bars on standard error with these columns and the elapsed time, if `shown` and if there is a
    terminal.
    """
    console = Terminal(stderr=True)
    visible = shown and (console.is_terminal or console.is_jupyter)
    columns = (*columns, TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not visible) as bars:
        yield bars


@contextmanager
def counted_progress(text: str) -> Iterator[Counted]:
    """Show a progress bar while the block runs; yields the callback that updates it."""
    with progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()) as bar:
        task = bar.add_task(text, total=None)

        def counted(done: int, total: int, what: str | None = None, /) -> None:
            bar.update(task, completed=done, total=total, description=text if what is None else what)

        yield counted


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Show a spinner with the name of a step on a terminal while the block runs; nothing elsewhere."""
    from rich.text import Text  # a name may look like markup

    console = Terminal(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield
        return
    with console.status(Text(f"{visible(name)} …")):
        yield
