"""Spool: messages of named streams in files, each message numbered within its stream and durable once its
future is done.

    <folder>/<stream>/id                            identity of the stream, to which positions belong
    <folder>/<stream>/00000000000000001234.spool    messages from number 1234 on, each after its length

Messages share an fsync: one thread writes all messages that arrived since the last fsync, and then completes
their futures. A file is only written by the process that created it. A process that opens the spool truncates
the last file after its last complete message, syncs it, and continues in a new file. After a failed write or
sync, the file is truncated to its durable part and never written again; if truncation fails too, the bytes
behind are not part of the spool: a file's messages end where the name of the next file says.

The last file of a stream is never deleted, even if empty: its name gives the number of the next message.
"""

from __future__ import annotations

import fcntl
import io
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Final

from ingest.framing import LENGTH32_BYTES, Framing, read_length
from ingest.receiver.receiver_settings import ReceiverSettings
from schemas.errors import BusyLakeError, FlowdiffError, InputError
from schemas.windows import NS_PER_SECOND

SUFFIX: Final = ".spool"
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_ID: Final = "id"
_BATCH_BYTES: Final = 2**20
"""Pending bytes from which messages are written without waiting for the sync interval, as a sync of fewer
bytes would take as long."""


class SpoolFullError(FlowdiffError):
    """The spool has no room for a message at the moment. The sender keeps the message and retries."""

    slug = "spool-full"


class PendingFullError(SpoolFullError):
    """Messages arrive faster than the disk can write them, so that too many are in memory."""

    slug = "too-many"


@dataclass(slots=True)
class _Segment:
    """File of a stream."""

    path: Path
    first: int
    """Number of the first message in the file."""
    until: int
    """Number after the last durable message in the file."""
    size: int
    """Bytes of the durable messages in the file."""
    begun_s: float
    """Time at which the file was created or found, monotonic s."""


@dataclass(frozen=True, slots=True)
class SpoolRead:
    """Consecutive messages of a stream that were read together."""

    messages: list[bytes]
    start: int
    """Number of the first message read."""

    @property
    def until(self) -> int:
        """Number after the last message read."""
        return self.start + len(self.messages)


class _Stream:
    """Files of one stream, ascending. The spool's lock guards all access, except for writing messages."""

    def __init__(self, folder: Path, now_s: float) -> None:
        """Open or create the stream. Raises OSError, InputError."""
        self.folder = folder
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        self.topic_id = _identity(folder)
        self.segments = _recovered(folder, now_s)
        self._descriptor: int | None = None
        """File descriptor of the last file; None: the next write creates a new file."""

    @property
    def first(self) -> int:
        """Number of the first message still stored."""
        return self.segments[0].first

    @property
    def end(self) -> int:
        """Number that the next message will get."""
        return self.segments[-1].until

    @property
    def size_bytes(self) -> int:
        """Durable bytes in all files of the stream."""
        return sum(segment.size for segment in self.segments)

    def append(
        self, messages: list[bytes], limit_bytes: int, now_s: float, age_s: float
    ) -> tuple[_Segment, int]:
        """Append messages durably; return (file they were written to, its size in bytes). A new file is
        started if the last one has `limit_bytes` or is `age_s` seconds old.

        Raises OSError; then none of the messages is stored. now_s: monotonic s.
        """
        last = self.segments[-1]
        # Files also end by age: under constant load the lake would never have all messages of a file.
        if last.size >= limit_bytes or now_s - last.begun_s >= age_s:
            self.rotate()
        if self._descriptor is None:
            last = self._begin(now_s)
        descriptor = self._descriptor
        assert descriptor is not None
        parts: list[bytes] = []
        for message in messages:
            parts += (len(message).to_bytes(LENGTH32_BYTES, "big"), message)
        data = memoryview(b"".join(parts))
        size = last.size + len(data)
        try:
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        except OSError:
            self._abandon(last)
            raise
        return last, size

    def _begin(self, now_s: float) -> _Segment:
        """Create the file that begins with the next message, or reuse an empty one, which has the same
        name."""
        last = self.segments[-1]
        path = _segment_path(self.folder, last.until)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _FILE_MODE)
        try:
            _sync_folder(self.folder)
        except OSError:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        if last.first == last.until:
            last.begun_s = now_s
            return last
        segment = _Segment(path, last.until, last.until, 0, now_s)
        self.segments.append(segment)
        return segment

    def rotate(self) -> None:
        """Make the next write create a new file."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)

    def _abandon(self, segment: _Segment) -> None:
        """Truncate a file to its durable part; it will not be written again."""
        descriptor, self._descriptor = self._descriptor, None
        assert descriptor is not None
        with suppress(OSError):  # the next file begins where this one ends, whatever is behind
            os.ftruncate(descriptor, segment.size)
        with suppress(OSError):
            os.close(descriptor)

    def drop(self, until: int, now_s: float, age_s: float) -> list[Path]:
        """Remove from the stream the files whose messages are all before number `until`, and return their
        paths.

        The last file is removed once it is old; an empty file then keeps the number of the next message.
        Raises OSError.
        """
        last = self.segments[-1]
        is_read = last.first < last.until <= until
        if is_read and now_s - last.begun_s >= age_s:
            self.rotate()
            self._begin(now_s)
        gone = [segment for segment in self.segments[:-1] if segment.until <= until]
        self.segments = self.segments[len(gone) :]
        return [segment.path for segment in gone]


@dataclass(slots=True)
class _Pending:
    stream: str
    message: bytes
    done: Future[None]


class Spool:
    """Spool that this process has open until `close`. Thread-safe.

    Raises BusyLakeError if another process has it open, InputError if it cannot be used.
    """

    def __init__(
        self, folder: Path, settings: ReceiverSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._work = threading.Condition(self._lock)
        self._pending: list[_Pending] = []
        self._pending_bytes = 0
        self._committed: dict[str, int] = {}
        self._is_closing = False
        self._failure: BaseException | None = None
        self._failed: tuple[str, float] | None = None
        """(reason, monotonic time in s) of a failure of the last write; None: the last write succeeded."""
        try:
            _make_folder(folder)
            self._locked = _locked(folder)
            names = sorted(entry.name for entry in folder.iterdir() if _is_stream(entry))
            self._streams = {name: _Stream(folder / name, clock()) for name in names}
        except OSError as error:
            raise InputError(
                f"The spool '{folder}' cannot be opened: {error.strerror or error}.",
                remedy="Check receiver.spool.",
            ) from error
        self._thread = threading.Thread(target=self._run, name="spool", daemon=True)
        self._thread.start()

    def append(self, stream: str, message: bytes) -> Future[None]:
        """Add a message to a stream; return a future that is done once the message is durable, or raises
        OSError or SpoolFullError.

        Raises PendingFullError.
        """
        done: Future[None] = Future()
        with self._lock:
            if self._is_closing:
                raise SpoolFullError("The receiver is stopping.")
            if self._pending_bytes + len(message) > max(self._settings.pending_bytes, len(message)):
                raise PendingFullError("Too many requests wait for the disk.")
            self._pending.append(_Pending(stream, message, done))
            self._pending_bytes += len(message)
            if len(self._pending) == 1 or self._pending_bytes >= _BATCH_BYTES:
                self._work.notify()  # otherwise the writer waits for its interval
        return done

    @property
    def trouble(self) -> str | None:
        """Reason why messages are refused at the moment; None: they are accepted.

        After a failed write the reason is reported for the pause that senders were asked for; if there is no
        room, as long as this lasts. If the failure were reported longer, a sender that waits until the
        receiver is ready would never send the message that shows that writing works again.
        """
        failed = self._failed
        if failed is None:
            return None
        why, at = failed
        if self._clock() - at < self._settings.retry_after_ns / NS_PER_SECOND:
            return why
        try:
            self._refuse_full()
        except (OSError, SpoolFullError):
            return why
        return None

    def streams(self) -> dict[str, str]:
        """Name of each stream -> its identity, which is used as topic id."""
        with self._lock:
            return {name: stream.topic_id for name, stream in self._streams.items()}

    def bounds(self, stream: str) -> tuple[int, int]:
        """(number of the first stored message, number of the next message) of a stream."""
        with self._lock:
            return self._streams[stream].first, self._streams[stream].end

    @property
    def size_bytes(self) -> int:
        """Durable bytes in all files of the spool."""
        with self._lock:
            return sum(stream.size_bytes for stream in self._streams.values())

    @property
    def pending_bytes(self) -> int:
        """Bytes of messages that are not yet durable."""
        with self._lock:
            return self._pending_bytes

    def wait(self, positions: dict[str, int], timeout_s: float) -> None:
        """Wait up to `timeout_s` seconds for news: a stream has a message at or after its number in
        `positions`, or a stream exists that is not in `positions`."""
        with self._lock:
            self._news.wait_for(
                lambda: any(positions.get(name, -1) < each.end for name, each in self._streams.items()),
                timeout_s,
            )

    def reader(self, stream: str, position: int) -> Iterator[SpoolRead | None]:
        """Read a stream endlessly from the message with number `position`; yields None if there is nothing to
        read at the moment.

        A gap between the numbers of two reads means that a file is damaged. Raises OSError.
        """
        segment, at = self._found(stream, position)
        while True:
            with self._lock:
                size, until = segment.size, segment.until
                others = self._streams[stream].segments
                following = next((s for s in others if s.first >= until and s is not segment), None)
            if position < until:
                read, at = _read(segment.path, at, size, position, self._settings)
                position = read.until
                yield read
            elif following is not None:
                segment, at, position = following, 0, following.first
            else:
                yield None

    def _found(self, stream: str, position: int) -> tuple[_Segment, int]:
        """Find a message: (file that contains it, byte offset of the message in the file)."""
        with self._lock:
            segments = self._streams[stream].segments
            segment = next(s for s in reversed(segments) if s.first <= position)
            size, until = segment.size, segment.until
        number, at = segment.first, 0
        while number < min(position, until):
            read, at = _read(segment.path, at, size, number, self._settings, position - number)
            number = read.until
        return segment, at

    def committed(self, stream: str, position: int) -> None:
        """Record that the lake has all messages before number `position`; their files will be removed."""
        with self._lock:
            self._committed[stream] = position
            self._work.notify()

    def close(self) -> None:
        """Make pending messages durable, and stop writing. May be called twice."""
        with self._lock:
            self._is_closing = True
            self._work.notify()
        self._thread.join()
        for stream in self._streams.values():
            stream.rotate()
        if self._locked is not None:
            os.close(self._locked)
            self._locked = None

    def check(self) -> None:
        """Raise the exception that ended the writing thread, if it failed."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        """Body of the writing thread: runs until the spool is closed; after a failure no message is
        accepted."""
        try:
            self._work_on()
        except BaseException as error:  # noqa: BLE001 - raised again by `check`
            with self._lock:
                self._failure, self._is_closing = error, True
                left, self._pending = self._pending, []
            for each in left:
                each.done.set_exception(SpoolFullError("The receiver has failed."))

    def _work_on(self) -> None:
        """Write the pending messages, and remove files that are no longer needed; returns afterwards."""
        synced_s = -float("inf")
        interval_s = self._settings.sync_interval_ns / NS_PER_SECOND
        age_s = self._settings.segment_age_ns / NS_PER_SECOND
        aging: dict[str, int] = {}  # committed positions of streams with a file not yet old enough
        while True:
            with self._lock:
                self._work.wait_for(
                    lambda: bool(self._pending or self._committed or self._is_closing),
                    age_s if aging else None,
                )
                if self._pending and not self._is_closing and self._pending_bytes < _BATCH_BYTES:
                    # Messages that arrive meanwhile share the sync.
                    self._work.wait_for(
                        lambda: self._is_closing or self._pending_bytes >= _BATCH_BYTES,
                        max(0.0, synced_s + interval_s - time.monotonic()),
                    )
                batch, self._pending = self._pending, []
                committed, self._committed = self._committed, {}
                is_over = self._is_closing and not batch
            if batch:
                self._write(batch)
                synced_s = time.monotonic()
            aging |= committed
            aging = {name: at for name, at in aging.items() if not self._drop(name, at)}
            if is_over:
                return

    def _write(self, batch: list[_Pending]) -> None:
        """Write messages durably and complete their futures."""
        by_stream: dict[str, list[_Pending]] = {}
        for each in batch:
            by_stream.setdefault(each.stream, []).append(each)
        for name, of_stream in by_stream.items():
            try:
                self._refuse_full()
                stream = self._streams.get(name)
                if stream is None:
                    stream = self._made(name)
                segment, size = stream.append(
                    [each.message for each in of_stream],
                    self._settings.segment_bytes,
                    self._clock(),
                    self._settings.segment_age_ns / NS_PER_SECOND,
                )
            except (OSError, SpoolFullError) as error:
                failed: BaseException | None = error
                why = (
                    f"cannot write: {error.strerror or error}"
                    if isinstance(error, OSError)
                    else error.message
                )
                self._failed = (why, self._clock())
            else:
                failed, self._failed = None, None
                with self._lock:
                    segment.size = size
                    segment.until += len(of_stream)
                    self._news.notify_all()
            with self._lock:
                self._pending_bytes -= sum(len(each.message) for each in of_stream)
            for each in of_stream:
                # A cancelled request is not answered.
                if each.done.set_running_or_notify_cancel():
                    each.done.set_result(None) if failed is None else each.done.set_exception(failed)

    def _made(self, name: str) -> _Stream:
        stream = _Stream(self._folder / name, self._clock())
        _sync_folder(self._folder)
        with self._lock:
            self._streams[name] = stream
        return stream

    def _refuse_full(self) -> None:
        """Raise SpoolFullError if the spool has reached its maximum size or the disk is nearly full. Raises
        OSError."""
        if self.size_bytes >= self._settings.max_spool_bytes:
            raise SpoolFullError("The spool is full: the lake takes what comes too slowly, or not at all.")
        disk = os.statvfs(self._folder)
        if disk.f_bavail * disk.f_frsize < self._settings.least_free_bytes:
            raise SpoolFullError("The disk of the spool is full but for its reserve.")

    def _drop(self, name: str, position: int) -> bool:
        """Remove files of a stream whose messages the lake has; return True if all messages in the remaining
        files are still needed."""
        with self._lock:
            stream = self._streams[name]
            try:
                gone = stream.drop(position, self._clock(), self._settings.segment_age_ns / NS_PER_SECOND)
            except OSError:
                return False  # tried again later
            is_done = stream.segments[-1].first >= position
        for path in gone:
            with suppress(OSError):  # the next process that opens the spool removes it at its first commit
                path.unlink(missing_ok=True)
        return is_done


def _read(
    path: Path, at: int, size: int, number: int, settings: ReceiverSettings, most: int | None = None
) -> tuple[SpoolRead, int]:
    """Read messages from bytes `[at, size)` of a file, as many as one read may return: (messages, byte offset
    after them).

    number: number of the first message. most: maximum number of messages, in addition to the limit in the
    settings.
    """
    with path.open("rb", buffering=0) as file:
        file.seek(at)
        data = file.read(min(settings.read_bytes, size - at))
        frame = read_length(memoryview(data), 0, Framing.LENGTH32)
        if frame is not None and frame.start + frame.length > len(data):
            data += _exactly(file, frame.start + frame.length - len(data))
    messages: list[bytes] = []
    view, begin = memoryview(data), 0
    limit = settings.read_messages if most is None else min(most, settings.read_messages)
    while len(messages) < limit and (frame := read_length(view, begin, Framing.LENGTH32)) is not None:
        end = frame.start + frame.length
        if end > len(view):
            break
        messages.append(data[frame.start : end])
        begin = end
    if not messages:
        raise OSError(None, f"'{path}' is shorter than it was written")
    return SpoolRead(messages, number), at + begin


def _exactly(file: io.FileIO, size: int) -> bytes:
    out = b""
    while len(out) < size and (part := file.read(size - len(out))):
        out += part
    return out


def _recovered(folder: Path, now_s: float) -> list[_Segment]:
    """Files of a stream found on disk, after truncating the last one behind its last complete message and
    syncing it. Raises OSError."""
    paths = sorted(path for path in folder.iterdir() if path.suffix == SUFFIX and path.stem.isdecimal())
    segments = []
    for path, following in zip_longest(paths, paths[1:]):
        first = int(path.stem)
        most = None if following is None else int(following.stem) - first
        n, size = _whole_messages(path, most)
        segments.append(_Segment(path, first, first + n, size, now_s))
    if not segments:
        path = _segment_path(folder, 0)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE))
        segments = [_Segment(path, 0, 0, 0, now_s)]
    last = segments[-1]
    descriptor = os.open(last.path, os.O_WRONLY)
    try:
        os.ftruncate(descriptor, last.size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    _sync_folder(folder)
    return segments


def _whole_messages(path: Path, most: int | None) -> tuple[int, int]:
    """Count the complete messages at the start of a file, up to `most`: (number of messages, their bytes)."""
    n, at, size = 0, 0, path.stat().st_size
    with path.open("rb") as file:
        while most is None or n < most:
            head = file.read(LENGTH32_BYTES)
            frame = read_length(memoryview(head), 0, Framing.LENGTH32)
            if frame is None or at + frame.start + frame.length > size:
                break
            file.seek(frame.length, os.SEEK_CUR)
            n, at = n + 1, at + frame.start + frame.length
    return n, at


def _identity(folder: Path) -> str:
    """Identity of a stream, 32 hex digits; created when it is first needed."""
    path = folder / _ID
    with suppress(FileNotFoundError):
        if text := path.read_text(encoding="ascii").strip():
            return text
    text = secrets.token_hex(16)
    draft = folder / f"{_ID}.new"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _FILE_MODE)
    try:
        os.write(descriptor, text.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    draft.rename(path)
    _sync_folder(folder)
    return text


def _is_stream(folder: Path) -> bool:
    """True if a folder contains an identity file, so that it is a stream and not, for example, `lost+found`
    of a mounted disk."""
    try:
        return (folder / _ID).is_file()
    except PermissionError:
        return False


def _make_folder(folder: Path) -> None:
    """Create a folder and its parents, durably. Raises OSError."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    for each in missing:
        _sync_folder(each.parent)


def _segment_path(folder: Path, first: int) -> Path:
    return folder / f"{first:020d}{SUFFIX}"


def _locked(folder: Path) -> int | None:
    """Lock the spool; return the descriptor of the lock file, which excludes other processes until it is
    closed.

    Raises BusyLakeError if another process has the lock.
    """
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, _FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise BusyLakeError(
            f"Another process receives into the spool '{folder}'.",
            remedy="Stop it, or give this one a spool and a partition of its own.",
        ) from error
    return descriptor


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
