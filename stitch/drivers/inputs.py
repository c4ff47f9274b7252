"""Open the inputs of an import, files and parts of topics: identified by content, in an order that does not
depend on names."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any, BinaryIO, Final

from ingest.decoding import DecodedBatch, decode_polls
from ingest.files import decode_file
from ingest.source import LogPart
from schemas.commits import InputFile
from schemas.errors import InputError, UnreachableInputError, is_passing
from schemas.visible import readable_name
from stitch.drivers.import_settings import ImportSettings
from stitch.lake.disk import FILE_MODE, FOLDER_MODE, file_sha256
from stitch.lake.place import local_path, remote_store
from stitch.scratch import Scratch

STDIN: Final = "-"
_CHUNK_BYTES_PER_EVENT: Final = 160
"""Typical bytes of a chunk of lines per event: the chunk size divided by it is the minimum number of events
in a decoded batch."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file in a remote store: URL of a folder (`s3://…`), and the file's name relative to that folder."""

    folder: str
    name: str

    def copy(self, out: IO[bytes] | None = None) -> tuple[str, int]:
        """Download the file into `out` (None: only hash it); return (SHA-256 in hex, size in bytes). Raises
        OSError, LakeError."""
        hashed = _Hashed(out)
        remote_store(self.folder).download(self.name, hashed)  # type: ignore[arg-type] # it only writes
        return hashed.sha256.hexdigest(), hashed.size


class _Hashed:
    """Writer that hashes and counts bytes, and also writes them to a file if one is given."""

    def __init__(self, out: IO[bytes] | None) -> None:
        self.sha256 = hashlib.sha256()
        self.size = 0
        self._out = out

    def write(self, data: Any) -> None:
        view = memoryview(data)
        self.sha256.update(view)
        self.size += len(view)
        if self._out is not None:
            self._out.write(view)


@dataclass(frozen=True, slots=True)
class Source:
    """An input to read: the name given by the user, and where its bytes are."""

    name: str
    path: Path | RemoteFile | LogPart
    sha256: str
    size: int
    """Size in bytes; 0 for a part of a log, whose size is not known before it is read."""
    mtime_ns: int
    """Modification time of a local file, ns since the epoch; 0 for other inputs."""
    spooled: bool = False
    """True if `path` is a copy, below `scratch`, of an input that can be read only once (stdin, pipe)."""

    def decoded(
        self,
        settings: ImportSettings,
        pool: Executor | None = None,
        ahead: int = 0,
        *,
        batch_events: int | None = None,
    ) -> Iterator[DecodedBatch]:
        """Decode the input and yield batches; threads of `pool` decode up to `ahead` chunks in advance.

        batch_events: minimum number of events in a batch; None: the default. Raises InputError, also if the
        input has changed since it was opened.
        """
        if batch_events is None:
            batch_events = settings.chunk_bytes // _CHUNK_BYTES_PER_EVENT
        if isinstance(self.path, LogPart):
            from ingest.kafka.log_reader import opened_part  # its client is an extra

            polls = opened_part(self.path, settings.kafka, settings.decode, settings.chunk_bytes)
            yield from decode_polls(polls, settings.decode, batch_events=batch_events, pool=pool, ahead=ahead)
            return
        with self.at_hand() as path:
            yield from decode_file(
                path,
                settings.format,
                settings.decode,
                chunk_bytes=settings.chunk_bytes,
                batch_events=batch_events,
                pool=pool,
                ahead=ahead,
                columns=settings.columns,
                page_bytes=settings.page_bytes,
            )

    @contextmanager
    def at_hand(self) -> Iterator[Path]:
        """Context manager: local path of the input's content; a remote file is downloaded for the duration of
        the block.

        Raises InputError if the content is gone or its hash is no longer `sha256`, which the commit would
        record.
        """
        assert not isinstance(self.path, LogPart), "a log is no file"
        if isinstance(self.path, Path):
            yield self.path
            self._refuse_if_changed(self.path)
            return
        with Scratch() as scratch, (scratch.folder / "input").open("wb") as file:
            try:
                sha256, _ = self.path.copy(file)
            except FileNotFoundError as error:
                raise self._changed(f"went away while it was read: {error.strerror}") from error
            if sha256 != self.sha256:
                raise self._changed("changed while it was read")
            file.flush()
            yield Path(file.name)

    def _refuse_if_changed(self, path: Path) -> None:
        try:
            status = path.stat()
        except OSError as error:
            raise self._changed(f"went away while it was read: {error.strerror}") from error
        if (status.st_size, status.st_mtime_ns) != (self.size, self.mtime_ns):
            raise self._changed("changed while it was read")

    def _changed(self, what: str) -> InputError:
        return InputError(f"'{self.name}' {what}.", remedy="Nothing was imported; try again.")


@dataclass(frozen=True, slots=True)
class Sources:
    """Inputs of an import, separated into new ones and ones that the lake already has."""

    fresh: tuple[Source, ...]
    """Inputs that the lake does not have yet, sorted by SHA-256; files with equal content once."""
    known: tuple[Source, ...]
    """Inputs that the lake already has, or that were given twice."""


def open_sources(names: Iterable[str | LogPart], scratch: Path, stdin: BinaryIO) -> list[Source]:
    """Open the named inputs, and hash every file (about 1 GB/s); a file in a bucket is downloaded for this.

    Inputs that can be read only once, `-` (`stdin`) and pipes, are first copied to a file below `scratch`.
    Raises InputError.
    """
    return [_opened(name, scratch / f"input-{number}", stdin) for number, name in enumerate(names)]


def files_named(pattern: str) -> list[str]:
    """Files that an argument of the command names, sorted by name: the file itself, or all matches of a glob.

    Empty without a match. Raises LakeError, ConfigError.
    """
    if pattern == STDIN or Path(pattern).exists():
        return [pattern]
    if local_path(pattern) is not None:
        return sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - absolute patterns too
    parts = pattern.split("/")
    wild = next((at for at, part in enumerate(parts) if "*" in part), None)
    if wild is None:
        return [pattern]
    folder = "/".join(parts[:wild])
    names = (f"{folder}/{name}" for name in remote_store(folder).below("", lambda _: False))
    return [name for name in names if name.count("/") == pattern.count("/") and fnmatchcase(name, pattern)]


def input_file(name: str) -> Path | RemoteFile:
    """Location of the file `name`: a path on this machine, or folder and name in a remote store."""
    path = local_path(name)
    if path is not None:
        return path.absolute()
    scheme, mark, rest = name.partition("://")
    folder, _, last = rest.rpartition("/")
    return RemoteFile(f"{scheme}{mark}{folder}", last)


def sort_out(
    sources: Iterable[Source],
    known: Mapping[str, InputFile],
    settings: ImportSettings,
) -> Sources:
    """Separate new inputs from those that the lake has (`known`: SHA-256 -> recorded file, if
    `InputFile.is_settled`) or that are given twice."""
    fresh: dict[str, Source] = {}
    seen: list[Source] = []
    for source in sources:
        before = known.get(source.sha256)
        is_settled = before is not None and before.is_settled(
            settings.format, settings.columns.told, any_time=settings.any_time
        )
        if source.sha256 in fresh or is_settled:
            seen.append(source)
        else:
            fresh[source.sha256] = source
    return Sources(fresh=tuple(fresh[key] for key in sorted(fresh)), known=tuple(seen))


def _rereadable(name: str, spool: Path, stdin: BinaryIO) -> Path:
    """Path of the file `name`; if it can be read only once (stdin, pipe), path of a copy made at `spool`."""
    if name == STDIN:
        _copy(name, stdin, spool)
        return spool
    path = Path(name)
    if path.exists() and not path.is_file():
        try:
            pipe = path.open("rb")
        except OSError as error:
            raise _unreadable(name, error) from error
        with pipe:
            _copy(name, pipe, spool)
        return spool
    return path


def _copy(name: str, stream: BinaryIO, spool: Path) -> None:
    """Copy the pipe `name`, open as `stream`, to the new file `spool`.

    Raises InputError if the pipe cannot be read, OSError if the disk is full.
    """
    spool.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    with os.fdopen(os.open(spool, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as file:
        while True:
            try:
                block = stream.read(1 << 20)
            except OSError as error:
                raise _unreadable(name, error) from error
            if not block:
                break
            file.write(block)


def _unreadable(name: str, error: OSError) -> InputError:
    message = f"'{name}' cannot be read: {error.strerror}."
    return (
        UnreachableInputError(message) if is_passing(error) else InputError(message, remedy="Check the path.")
    )


def _opened(name: str | LogPart, spool: Path, stdin: BinaryIO) -> Source:
    if isinstance(name, LogPart):
        return Source(name.name, name, name.sha256, size=0, mtime_ns=0)
    path = None if local_path(name) is None else _rereadable(name, spool, stdin)
    try:
        if path is None:
            file = input_file(name)
            assert isinstance(file, RemoteFile), "it is no file of this machine"
            return Source(readable_name(name), file, *file.copy(), mtime_ns=0)
        sha256, status = file_sha256(path), path.stat()
    except OSError as error:
        raise _unreadable(name, error) from error
    spooled = path == spool
    return Source(readable_name(name), path, sha256, status.st_size, status.st_mtime_ns, spooled)
