"""The files of an import: told apart by content, in an order that does not depend on how they were named."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from schemas.commits import InputFile
from schemas.errors import InputError
from stitch.lake.disk import FILE_MODE, FOLDER_MODE

STDIN: Final = "-"


@dataclass(frozen=True, slots=True)
class Source:
    """One file to read: what the user called it, and where its bytes lie."""

    name: str
    path: Path
    sha256: str
    size: int
    mtime_ns: int

    def refuse_if_changed(self) -> None:
        """Raises InputError where the file is no longer what was hashed: its commit would lie."""
        status = self.path.stat()
        if (status.st_size, status.st_mtime_ns) != (self.size, self.mtime_ns):
            raise InputError(
                f"'{self.name}' changed while it was read.", remedy="Nothing was imported; try again."
            )


@dataclass(frozen=True, slots=True)
class Sources:
    """What is new and what is not."""

    fresh: tuple[Source, ...]
    """By sha256."""
    known: tuple[Source, ...]
    """In the lake already, or given twice."""


def open_sources(
    names: Iterable[str],
    known: Mapping[str, InputFile],
    format_: str | None,
    scratch: Path,
    stdin: BinaryIO,
) -> Sources:
    """Hash every file (1 GB/s or so) and put aside what the lake has (`InputFile.is_settled`).

    What can be read only once, `-` (`stdin`) and pipes, is copied to a file below `scratch` first. Raises
    InputError.
    """
    fresh: dict[str, Source] = {}
    seen: list[Source] = []
    for number, name in enumerate(names):
        source = _open(name, _rereadable(name, scratch / f"input-{number}", stdin))
        before = known.get(source.sha256)
        if source.sha256 in fresh or (before is not None and before.is_settled(format_)):
            seen.append(source)
        else:
            fresh[source.sha256] = source
    return Sources(fresh=tuple(fresh[key] for key in sorted(fresh)), known=tuple(seen))


def _rereadable(name: str, spool: Path, stdin: BinaryIO) -> Path:
    """The file itself, or a copy of what comes through a pipe."""
    if name == STDIN:
        _copy(stdin, spool)
        return spool
    path = Path(name)
    if path.exists() and not path.is_file():
        try:
            with path.open("rb") as pipe:
                _copy(pipe, spool)
        except OSError as error:
            raise _unreadable(name, error) from error
        return spool
    return path


def _copy(stream: BinaryIO, spool: Path) -> None:
    spool.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    with os.fdopen(os.open(spool, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as file:
        shutil.copyfileobj(stream, file, 1 << 20)


def _unreadable(name: str, error: OSError) -> InputError:
    return InputError(f"'{name}' cannot be read: {error.strerror}.", remedy="Check the path.")


def _open(name: str, path: Path) -> Source:
    try:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        status = path.stat()
    except OSError as error:
        raise _unreadable(name, error) from error
    return Source(name, path, sha256, status.st_size, status.st_mtime_ns)
