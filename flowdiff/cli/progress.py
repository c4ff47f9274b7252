"""Show a bar with a count on a terminal, nothing elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Told(Protocol):
    """What the work calls as it goes on."""

    def __call__(self, done: int, total: int, what: str | None = None, /) -> None:
        """How much is done, of how much, and of what where that changes."""
        ...


@contextmanager
def counted_progress(text: str) -> Iterator[Told]:
    """A function that is told how far the work is, for as long as the block runs."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(text, total=None)

        def told(done: int, total: int, what: str | None = None, /) -> None:
            bar.update(task, completed=done, total=total, description=text if what is None else what)

        yield told
