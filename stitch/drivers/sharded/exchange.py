"""Pass files between tasks of an import: through a folder that all workers see, or through a remote lake."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa

from schemas.errors import LakeError
from stitch.lake.disk import FOLDER_MODE
from stitch.lake.place import open_store
from stitch.scratch import Scratch


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in the remote store of a lake."""

    lake: str
    name: str

    def read(self) -> pa.Buffer:
        """Read the whole content. Raises OSError, LakeError."""
        return open_store(self.lake).read(self.name)

    def unlink(self) -> None:
        """Delete the file. Raises OSError, LakeError."""
        open_store(self.lake).remove(self.name)


_NAME: Final = re.compile(r"(?:[0-9A-Za-z_][0-9A-Za-z_.-]*/)*[0-9A-Za-z_][0-9A-Za-z_.-]*", re.ASCII)
"""Pattern of a file's name relative to a folder: no part is empty or begins with a dot, so the name cannot
lead out of the folder."""

_LONGEST_REASON: Final = 200
"""Maximum characters of Arrow's error message that a LakeError quotes."""

HandedFile = Path | StoredFile
"""Location of a file that one task wrote and another reads: a path, or an object in a lake's store."""


def opened(file: HandedFile) -> pa.NativeFile:
    """Open a file for reading. Raises OSError, LakeError."""
    return pa.OSFile(str(file)) if isinstance(file, Path) else pa.BufferReader(file.read())


@contextmanager
def refused_if_broken(file: HandedFile) -> Iterator[None]:
    """Context manager that raises LakeError if the block reads data that is not an Arrow stream."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        reason = str(error).partition("\n")[0][:_LONGEST_REASON]
        raise LakeError(
            f"'{file if isinstance(file, Path) else file.name}' is not what a task wrote: {reason}.",
            remedy="Nothing was committed; run the import again.",
        ) from error


class Exchange(Protocol):
    """Place in which tasks of an import leave files for each other. Two attempts at one task never write to
    the same place."""

    def folder(self) -> AbstractContextManager[Path]:
        """Context manager: folder for the files of one attempt at a task, which must be handed on (`hand_on`)
        inside the block."""
        ...

    def hand_on(self, files: Sequence[HandedFile]) -> list[HandedFile]:
        """Make files readable by other tasks; return their new locations. Files that were handed on before
        are unchanged.

        Raises OSError, LakeError.
        """
        ...

    def name_of(self, file: HandedFile) -> str:
        """Name of a handed-on file, relative to the exchange."""
        ...

    def file_of(self, name: str) -> HandedFile:
        """Location of the file with a given name (inverse of `name_of`). Raises LakeError for a name outside
        the exchange."""
        ...


def outside(name: str) -> LakeError:
    """Error for a file name, read from the lake, that leads out of the exchange."""
    return LakeError(
        f"A task or result in the lake names {name!a}, which is not on the stage of its import.",
        remedy="Nothing was read. Find out who wrote it.",
    )


@dataclass(frozen=True, slots=True)
class SharedFolder:
    """Exchange in a folder. Files stay where they are written; whoever created the folder removes it."""

    path: Path

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Context manager: new folder for one attempt, below `path`; it is not removed at the end."""
        own = self.path / secrets.token_hex(8)
        own.mkdir(mode=FOLDER_MODE, parents=True)
        yield own

    def hand_on(self, files: Sequence[HandedFile]) -> list[HandedFile]:
        """Return the files unchanged: all tasks can already read them."""
        return [*files]

    def name_of(self, file: HandedFile) -> str:
        """Path of a file relative to `path`, with `/`."""
        assert isinstance(file, Path), "nothing here is remote"
        return file.relative_to(self.path).as_posix()

    def file_of(self, name: str) -> HandedFile:
        """File below `path` with a given relative path. Raises LakeError for a name that leads out of `path`,
        also through a symbolic link."""
        path = self.path / name
        if not _NAME.fullmatch(name) or path.resolve() != self.path.resolve() / name:
            raise outside(name)
        return path


@dataclass(frozen=True, slots=True)
class RemoteStage:
    """Exchange in a remote lake: files are objects in the import's stage folders, and are deleted together
    with these."""

    lake: str
    attempts: str
    """Prefix of the names of stage folders (`Staging.attempts`)."""

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Context manager: local scratch folder for one attempt, removed at the end."""
        with Scratch() as scratch:
            yield scratch.folder

    def hand_on(self, files: Sequence[HandedFile]) -> list[HandedFile]:
        """Upload local files as objects of the lake, durably, and return their locations; files already in
        the lake are unchanged. Raises OSError, LakeError."""
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

    def name_of(self, file: HandedFile) -> str:
        """Name of an uploaded file without the prefix `attempts`."""
        assert isinstance(file, StoredFile), "a file that was handed on lies in the store"
        return file.name.removeprefix(self.attempts)

    def file_of(self, name: str) -> HandedFile:
        """Location of the file with a given name below the prefix `attempts`. Raises LakeError for an invalid
        name."""
        if not _NAME.fullmatch(name):
            raise outside(name)
        return StoredFile(self.lake, f"{self.attempts}{name}")
