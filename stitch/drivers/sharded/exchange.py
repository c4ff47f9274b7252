"""Hand files from one task to another: in a folder that all workers see, or through the lake's bucket."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from stitch.lake.disk import FOLDER_MODE
from stitch.lake.place import open_store
from stitch.scratch import Scratch


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in a lake's bucket."""

    lake: str
    name: str

    def read(self) -> pa.Buffer:
        """Return the whole content. Raises OSError, LakeError."""
        return open_store(self.lake).read(self.name)

    def unlink(self) -> None:
        """Remove it. Raises OSError, LakeError."""
        open_store(self.lake).remove(self.name)


HandedFile = Path | StoredFile
"""A file that one task wrote, as another one finds it."""


def opened(file: HandedFile) -> pa.NativeFile:
    """Open a file to read it. Raises OSError, LakeError."""
    return pa.OSFile(str(file)) if isinstance(file, Path) else pa.BufferReader(file.read())


class Exchange(Protocol):
    """Where tasks leave files for one another. Attempts at one task never write to the same place."""

    def folder(self) -> AbstractContextManager[Path]:
        """Make a folder for the files of one attempt, which must be handed on before the block ends."""
        ...

    def hand_on(self, files: Sequence[HandedFile]) -> list[HandedFile]:
        """Return under which names others find them; files that were handed on keep theirs.

        Raises OSError, LakeError.
        """
        ...


@dataclass(frozen=True, slots=True)
class SharedFolder:
    """See Exchange. Files stay where they are written; who made the folder removes it."""

    path: Path

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """See Exchange."""
        own = self.path / secrets.token_hex(8)
        own.mkdir(mode=FOLDER_MODE, parents=True)
        yield own

    def hand_on(self, files: Sequence[HandedFile]) -> list[HandedFile]:
        """See Exchange."""
        return [*files]


@dataclass(frozen=True, slots=True)
class BucketStage:
    """See Exchange. Files become objects of the stage, with which they go."""

    lake: str
    attempts: str
    """Beginning of the names of stage folders (`Staging.attempts`)."""

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """See Exchange."""
        with Scratch() as scratch:
            yield scratch.folder

    def hand_on(self, files: Sequence[HandedFile]) -> list[HandedFile]:
        """See Exchange."""
        store = open_store(self.lake)
        own = f"{self.attempts}{secrets.token_hex(8)}"
        given: list[HandedFile] = []
        put: list[str] = []
        for file in files:
            if isinstance(file, Path):
                put.append(f"{own}/{len(put):05d}-{file.name}")
                store.put(put[-1], pa.memory_map(str(file)).read_buffer())
                given.append(StoredFile(self.lake, put[-1]))
            else:
                given.append(file)
        store.persist(put)
        return given
