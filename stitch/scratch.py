"""A folder for temporary files of one process, which the next one removes where that was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import weakref
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from typing import Final, Self
from uuid import uuid4

_NAME: Final = "flowdiff-scratch-"


class Scratch:
    """A folder, made when it is first asked for. It goes at the end of a `with` block, with its owner, when
    the process ends, or, where that was killed, when the next one is made: who is alive holds the lock of
    his."""

    def __init__(self, above: Path | None = None) -> None:
        """`above`: where it is made; TMPDIR if not given."""
        self._above = above

    @cached_property
    def folder(self) -> Path:
        """Make it, and remove those whose owners are gone. Raises OSError."""
        made = Path(mkdtemp(prefix="flowdiff-", dir=self._above))
        held = os.open(made, os.O_RDONLY)
        with suppress(OSError):  # where nothing can be locked it keeps a name that nobody looks for
            fcntl.flock(held, fcntl.LOCK_EX)
            # Whoever removes looks for this name, so it has it when it is locked.
            made = made.rename(made.with_name(f"{_NAME}{uuid4().hex}"))
        self._remove = weakref.finalize(self, _remove, made, held)
        for other in made.parent.glob(f"{_NAME}*"):
            _remove_abandoned(other)
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove it, where it was made."""
        if "folder" in self.__dict__:
            self._remove()


def _remove(folder: Path, held: int) -> None:
    with suppress(FileNotFoundError):  # whoever tidies up there may have been sooner
        shutil.rmtree(folder)
    os.close(held)


def _remove_abandoned(folder: Path) -> None:
    """Remove it if that can be done: what others left there stops nobody."""
    with suppress(OSError):  # gone meanwhile, of another user, no folder, or its owner is alive
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(held)
