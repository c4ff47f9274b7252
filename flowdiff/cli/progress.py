"""Show how far the work is on a terminal or in a notebook, nothing elsewhere."""

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


class Counted(Protocol):
    """What the work calls as it goes on."""

    def __call__(self, done: int, total: int, what: str | None = None, /) -> None:
        """Report how much is done, of how much, and of what where that changes."""
        ...


@contextmanager
def progress(*columns: ProgressColumn, shown: bool = True) -> Iterator[Progress]:
    """Bars of some columns and of the time since, on standard error, if they are to be shown."""
    console = Terminal(stderr=True)
    visible = shown and (console.is_terminal or console.is_jupyter)
    columns = (*columns, TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not visible) as bars:
        yield bars


@contextmanager
def counted_progress(text: str) -> Iterator[Counted]:
    """A function that is called with how far the work is, for as long as the block runs."""
    with progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()) as bar:
        task = bar.add_task(text, total=None)

        def counted(done: int, total: int, what: str | None = None, /) -> None:
            bar.update(task, completed=done, total=total, description=text if what is None else what)

        yield counted
