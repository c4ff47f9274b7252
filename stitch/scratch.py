"""Folder for temporary files of one process; if the process is killed, a later process removes the folder."""

from __future__ import annotations

import fcntl
import os
import shutil
import weakref
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock
from typing import Final, Self
from uuid import uuid4

_NAME: Final = "flowdiff-scratch-"


class Scratch:
    """Temporary folder, created when it is first used; removed by `close`, at the end of a `with` block, or
    at the end of the process.

    A live process holds a lock on its folder. The folder of a killed process is removed when another process
    creates one.
    """

    def __init__(self, above: Path | None = None) -> None:
        """above: parent folder; TMPDIR by default."""
        self._above = above
        self._folder: Path | None = None
        self._lock = Lock()

    @property
    def folder(self) -> Path:
        """Path of the folder; created on first use, when folders of dead owners are removed, and again if
        somebody cleaned it away. Raises OSError.
        """
        with self._lock:
            if self._folder is None or not self._folder.is_dir():
                self.close()
                self._folder = self._made()
            return self._folder

    def _made(self) -> Path:
        """Create a folder and lock it, then remove those whose owners are dead."""
        made = Path(mkdtemp(prefix="flowdiff-", dir=self._above))
        held = os.open(made, os.O_RDONLY)
        with suppress(OSError):  # where locking fails it keeps a name that no process removes
            fcntl.flock(held, fcntl.LOCK_EX)
            # Other processes remove folders of this name, so it is renamed only once locked.
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
        """Remove the folder, if it was created."""
        if self._folder is not None:
            self._remove()
            self._folder = None


def _remove(folder: Path, held: int) -> None:
    with suppress(FileNotFoundError):  # another process may have removed it already
        shutil.rmtree(folder)
    os.close(held)


def _remove_abandoned(folder: Path) -> None:
    """Remove a folder whose owner is dead; failures are ignored."""
    with suppress(OSError):  # gone meanwhile, of another user, no folder, or its owner is alive
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(held)
