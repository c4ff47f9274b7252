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
    """Callback for progress."""

    def __call__(self, done: int, total: int, what: str | None = None, /) -> None:
        """Report the amount done, the total, and, if it changes, a description."""
        ...


@contextmanager
def progress(*columns: ProgressColumn, shown: bool = True) -> Iterator[Progress]:
    """Progress bars with the given columns and the elapsed time, on standard error, if shown."""
    console = Terminal(stderr=True)
    visible = shown and (console.is_terminal or console.is_jupyter)
    columns = (*columns, TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not visible) as bars:
        yield bars


@contextmanager
def counted_progress(text: str) -> Iterator[Counted]:
    """Callback that updates a progress bar while the block runs."""
    with progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()) as bar:
        task = bar.add_task(text, total=None)

        def counted(done: int, total: int, what: str | None = None, /) -> None:
            bar.update(task, completed=done, total=total, description=text if what is None else what)

        yield counted


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Show a spinner on a terminal; nothing elsewhere."""
    from rich.text import Text  # a name may look like markup

    console = Terminal(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield
        return
    with console.status(Text(f"{visible(name)} …")):
        yield
