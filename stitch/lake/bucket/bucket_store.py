"""Store a lake in a bucket: implements the Store protocol with requests of S3.

A put with `If-None-Match: *` decides who commits. The client reports "exists" also for status 409 (two
concurrent puts, of which possibly none was stored) and cannot know whether a request without an answer was
carried out, so it does not retry conditional puts. This module retries them, and reads the stored object
before it reports an outcome (docs/internals/reliability.md, 20). Secrets are passed only to the client.

Errors of the client become OSErrors with the matching errno and one line with a remedy. The client's texts
have many lines, include a debug print, and give no cause for a lost connection. Only the status, S3's error
code, and the kind of a transport failure are used.
"""

from __future__ import annotations

import errno
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

import obstore
import pyarrow as pa
from obstore.store import S3Store

from schemas.errors import LakeError, lake_error
from stitch.lake.bucket.bucket_settings import BucketSettings
from stitch.lake.store import Listed, Move, UncertainError

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3Config

_STATUS: Final = re.compile(r"status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>(\w{1,64})</Code>")
_KIND: Final = re.compile(r"kind: (Connect|Timeout|Request|Decode|Interrupted|Unknown)\b")
_OF_A_ROLE: Final = (
    "/latest/api/token",
    "/latest/meta-data/",
    "//169.254.169.254",
    "//169.254.170.2",
    "AssumeRoleWithWebIdentity",
)
"""Parts of error texts which show that a request for a role's credentials failed."""
_DENIED: Final = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "XAdminUserNotFound")
"""Error codes that mean denied access. XAdminUserNotFound is versitygw's code for an unknown key, sent with
status 404."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Interpretation of a failed request: which exception to raise, and what may have happened."""

    error: OSError
    """Exception to raise for the failed request."""
    certain: bool
    """True if a put that failed in this way has certainly stored nothing."""
    passing: bool
    """True if the failure is temporary, so that repeating the request may succeed."""


def failure_of(error: BaseException, url: str) -> Failure:
    """Interpret the client's exception `error` for a request on `url`."""
    text = str(error)
    status = int(match[1]) if (match := _STATUS.search(text)) else None
    code = match[1] if (match := _CODE.search(text)) else ""
    answer = f"{status} {code}".strip()
    if any(sign in text for sign in _OF_A_ROLE):
        why = "there are no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        return Failure(OSError(errno.EACCES, why, url), certain=True, passing=False)
    if code == "NoSuchBucket":
        why = "there is no such bucket; make it, or check the name and AWS_ENDPOINT_URL"
        return Failure(OSError(errno.ENXIO, why, url), certain=True, passing=False)
    if status in (401, 403) or code in _DENIED:
        why = f"access is denied ({answer}); check the credentials and what they may do with the bucket"
        return Failure(OSError(errno.EACCES, why, url), certain=True, passing=False)
    if "redirect" in text or status in (301, 307):
        why = "the bucket is in another region; set AWS_REGION"
        return Failure(OSError(errno.ENXIO, why, url), certain=True, passing=False)
    if status == 404 and code in ("", "NoSuchKey"):
        return Failure(FileNotFoundError(errno.ENOENT, "it is not there", url), certain=True, passing=False)
    if status is not None:
        # A server, or a proxy in front of it, may fail after it stored the object.
        server = status >= 500 or status in (408, 409, 429)
        why = f"the store answered {answer}" + ("; try again later" if server else "")
        number = errno.EAGAIN if server else errno.EIO
        return Failure(OSError(number, why, url), certain=status < 500, passing=server)
    return _of_connection(text, url)


def _of_connection(text: str, url: str) -> Failure:
    match = _KIND.search(text)
    kind = match[1] if match else ""
    if kind == "Connect":
        why = "there is no connection to the store; check AWS_ENDPOINT_URL and the network"
        return Failure(OSError(errno.EHOSTUNREACH, why, url), certain=True, passing=True)
    if kind == "Timeout":
        why = "the store did not answer in time; try again, or raise FLOWDIFF_BUCKET_TIMEOUT"
        return Failure(OSError(errno.ETIMEDOUT, why, url), certain=False, passing=True)
    why = "the connection was lost; try again"
    return Failure(OSError(errno.ECONNRESET, why, url), certain=False, passing=True)


R = TypeVar("R")
_AT_ONCE: Final = 32
"""Maximum number of concurrent requests. At 20 ms each, 1,000 small files take 0.6 s."""
PUT_ATTEMPTS: Final = 5
"""Maximum number of attempts at one conditional put, with pauses of 0.1, 0.2, 0.4 and 0.8 s between them."""
FIRST_PAUSE_S: Final = 0.1
READ_RETRIES: Final = 5
_HEADS_AT_MOST: Final = 64
"""Maximum number of names whose sizes are requested one by one; for more names, sizes are taken from listings
of 1,000 names each."""
_BYTES_UNDER_WAY: Final = 128 * 2**20
"""Maximum total bytes of unfinished puts: twelve times what a connection of 100 MB/s transfers in 100 ms."""
_CHUNK_BYTES: Final = 4 * 2**20


class BucketStore:
    """Implementation of `stitch.lake.store.RemoteStore` for a bucket. A `put` runs in the background until
    `persist` or `remove`.

    Errors are OSErrors whose text contains a remedy. Thread-safe.
    """

    concurrency: Final = _AT_ONCE

    def __init__(self, settings: BucketSettings) -> None:
        """Create the clients. Sends no request; `check` does."""
        self.url = settings.url
        self._client = _client_of(settings, retries=READ_RETRIES)
        self._once = _client_of(settings, retries=0)
        """Client that never retries, for requests that must not be repeated blindly."""
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="bucket")
        self._room = Room(_BYTES_UNDER_WAY)
        self._under_way: dict[str, Future[None]] = {}
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raise LakeError, with a remedy, if the bucket cannot be reached or listed."""
        try:
            self.names("")
        except OSError as error:
            why, _, remedy = str(error.strerror).partition("; ")
            remedy = f"{remedy[:1].upper()}{remedy[1:]}." if remedy else ""
            raise lake_error(
                f"The lake '{self.url}' cannot be opened: {why}.", error, remedy=remedy
            ) from error

    # -- reading ------------------------------------------------------------------------------------

    def read(self, name: str) -> pa.Buffer:
        """Whole content of a file. Raises FileNotFoundError."""
        return self._asked(name, lambda: pa.py_buffer(obstore.get(self._client, name).bytes()))

    def read_end(self, name: str, n_bytes: int) -> pa.Buffer:
        """Last `n_bytes` bytes of a file, or the whole file if it is shorter. Raises FileNotFoundError."""
        if n_bytes <= 0:
            return self.read(name).slice(0, 0)
        end: Any = {"range": {"suffix": n_bytes}}
        return self._asked(name, lambda: pa.py_buffer(obstore.get(self._client, name, options=end).bytes()))

    def download(self, name: str, out: BinaryIO) -> None:
        """Write a file's content to `out`, piece by piece. Raises FileNotFoundError, OSError."""

        def get() -> None:
            for piece in obstore.get(self._client, name).stream(min_chunk_size=_CHUNK_BYTES):
                out.write(piece)

        self._asked(name, get)

    def size(self, name: str) -> int | None:
        """Size of a file in bytes; None if it does not exist, or is a folder."""
        try:
            return self._asked(name, lambda: int(obstore.head(self._client, name)["size"]))
        except FileNotFoundError:
            return None

    def sizes(self, names: Sequence[str]) -> list[int | None]:
        """Sizes of files in bytes, None for missing ones. Sizes of many names are taken from one listing per
        top-level folder, from the first to the last of the names; names in no folder are asked for singly."""
        if len(names) <= _HEADS_AT_MOST:
            return [*self._pool.map(self.size, names)]
        found: dict[str, int | None] = {}
        for top, group in groupby(sorted({*names}), key=lambda name: name[: name.find("/") + 1]):
            mine = [*group]
            if not top:
                found |= zip(mine, self._pool.map(self.size, mine), strict=True)
                continue
            for entry in self._entries(top[:-1], after=mine[0][:-1]):
                if entry.name > mine[-1]:
                    break
                found[entry.name] = entry.size
        return [found.get(name) for name in names]

    def names(self, folder: str, after: str = "") -> list[str]:
        """Names in a folder (last path parts) that sort after `after`, sorted; empty for a missing folder."""
        if after:
            start = f"{folder}/{after}"
            cut = len(folder) + 1
            below = {entry.name[cut:].partition("/")[0] for entry in self._entries(folder, after=start)}
            return sorted(name for name in below if name > after)
        listed = self._asked(folder, lambda: obstore.list_with_delimiter(self._client, folder or None))
        paths = [*listed["common_prefixes"], *(entry["path"] for entry in listed["objects"])]
        return sorted(path.rstrip("/").rpartition("/")[2] for path in paths)

    def written(self, folder: str) -> dict[str, int]:
        """Name of each file in a folder -> time at which it was written, ns since the epoch, in whole
        seconds, as S3 reports it."""
        listed = self._asked(folder, lambda: obstore.list_with_delimiter(self._client, folder))
        return {
            entry["path"].rpartition("/")[2]: int(entry["last_modified"].timestamp()) * 10**9
            for entry in listed["objects"]
        }

    def below(self, folder: str, is_folder: Callable[[str], bool]) -> Iterator[str]:
        """Names of all files below a folder, sorted. `is_folder` is ignored, as a bucket lists only files."""
        del is_folder
        return iter(sorted(entry.name for entry in self._entries(folder)))

    def listed(self, folder: str) -> list[Listed]:
        """Entries of all files below a folder, sorted by name."""
        return sorted(self._entries(folder))

    def _entries(self, folder: str, after: str | None = None) -> Iterator[Listed]:
        """Yield the entries of files below a folder, ordered by the bytes of their names; only names after
        `after`."""
        pages = obstore.list(self._client, folder or None, offset=after, chunk_size=1000)
        while (page := self._asked(folder, lambda: next(pages, None))) is not None:
            for entry in page:
                yield Listed(entry["path"], int(entry["size"]), entry["e_tag"] or "")

    # -- writing ------------------------------------------------------------------------------------

    def put(self, name: str, data: pa.Buffer | bytes) -> None:
        """Start uploading a new staged file. Waits only while too many bytes are being uploaded; `persist`
        raises the upload's errors."""
        n_bytes = len(data) if isinstance(data, bytes) else data.size
        self._room.take(n_bytes)
        future = self._pool.submit(self._create, name, data)
        future.add_done_callback(lambda _: self._room.give_back(n_bytes))
        with self._lock:
            self._under_way[name] = future

    def persist(self, names: Sequence[str]) -> None:
        """Wait until the uploads started by `put` are done, and raise their errors."""
        wanted = {*names}
        for future in self._settled(lambda name: name in wanted):
            future.result()
        for name, size in zip(names, self.sizes(names), strict=True):
            if size is None:
                raise FileNotFoundError(errno.ENOENT, "it was removed by another writer", name)

    def settle(self, folder: str) -> None:
        """Do nothing: in a bucket every visible object is durable."""

    def put_if_absent(self, name: str, data: bytes, stage: str) -> None:
        """Write a file atomically, if the name is free. `stage` is ignored, as no draft is needed."""
        del stage
        self._create(name, data)

    def publish(self, moves: Sequence[Move]) -> None:
        """Move files to their final names: staged files are deleted only after all copies exist and are
        visible under their final names.

        A store may answer 200 to a copy that failed, so an answer alone is no reason to delete the staged
        file.
        """
        deque(self._pool.map(self._copy, moves), maxlen=0)
        finals = [move.final for move in moves]
        for name, size in zip(finals, self.sizes(finals), strict=True):
            if size is None:
                raise OSError(errno.EIO, "the store did not copy it, and said it did", self._url(name))
        self._delete([move.stage for move in moves])

    def replace(self, name: str, data: bytes, stage: str) -> None:
        """Replace the content of a file. Putting an object is atomic, so `stage` is ignored."""
        del stage
        self._asked(name, lambda: obstore.put(self._client, name, data, use_multipart=False))

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with its content. Waits for unfinished puts of names in it."""
        for future in self._settled(lambda other: other == name or other.startswith(f"{name}/")):
            future.exception()
        self._delete([name, *(entry.name for entry in self._entries(name))])

    def _settled(self, mine: Callable[[str], bool]) -> list[Future[None]]:
        """Remove the unfinished puts whose names `mine` accepts from the list, and return them."""
        with self._lock:
            return [self._under_way.pop(name) for name in [n for n in self._under_way if mine(n)]]

    def _create(self, name: str, data: pa.Buffer | bytes) -> None:
        """Put a file if the name is free: see `Store.put_if_absent` and the module docstring."""
        # The client refuses buffers whose items are signed.
        content = data if isinstance(data, bytes) else memoryview(data).cast("B")
        failure: Failure | None = None
        uncertain = False
        for attempt in range(PUT_ATTEMPTS):
            if attempt:
                time.sleep(FIRST_PAUSE_S * 2 ** (attempt - 1))
            try:
                obstore.put(self._once, name, content, mode="create", use_multipart=False)
            except obstore.exceptions.AlreadyExistsError as error:
                there = self._content(name)
                if there is not None and not (uncertain and there.equals(pa.py_buffer(data))):
                    raise FileExistsError(errno.EEXIST, "it is there already", self._url(name)) from None
                if there is not None:
                    return  # an earlier attempt of ours, whose answer was lost
                failure = failure_of(error, self._url(name))
            except (obstore.exceptions.BaseError, OSError, ValueError) as error:
                failure = failure_of(error, self._url(name))
                uncertain = uncertain or not failure.certain
                if not failure.passing:
                    break
            else:
                return
        assert failure is not None, "the loop ends by an answer or a failure"
        if uncertain:
            message = f"{failure.error.strerror}; '{name}' may be there or not"
            raise UncertainError(failure.error.errno, message, self._url(name)) from failure.error
        raise failure.error

    def _content(self, name: str) -> pa.Buffer | None:
        """Content of a file; None if it does not exist. Raises UncertainError if this cannot be
        determined."""
        try:
            return self.read(name)
        except FileNotFoundError:
            return None
        except OSError as error:
            message = f"{error.strerror}; '{name}' may be ours or another's"
            raise UncertainError(error.errno, message, self._url(name)) from error

    def _copy(self, move: Move) -> None:
        """Copy a file to its final name, even if a file is already there, as copying again is harmless; skip
        a missing file whose final name exists."""
        try:
            self._asked(move.stage, lambda: obstore.copy(self._client, move.stage, move.final))
        except FileNotFoundError as error:
            if self.size(move.final) is None:
                raise FileNotFoundError(errno.ENOENT, "neither published nor staged", move.final) from error

    def _delete(self, names: Iterable[str]) -> None:
        doomed = [*names]
        if doomed:
            self._asked(doomed[0], lambda: obstore.delete(self._client, doomed))

    def _asked(self, name: str, ask: Callable[[], R]) -> R:
        """Call `ask` and return its result; errors of the client become OSErrors that mention `name`."""
        try:
            return ask()
        except (obstore.exceptions.BaseError, FileNotFoundError) as error:
            # Not chained: the client's text may hold a signature, and tracebacks are logged.
            raise failure_of(error, self._url(name)).error from None

    def _url(self, name: str) -> str:
        return f"{self.url}/{name}" if name else self.url


def _client_of(settings: BucketSettings, retries: int) -> S3Store:
    """Create a client of the bucket, for names relative to the lake's prefix. Raises ConfigError,
    LakeError."""
    options: ClientConfig = {
        "timeout": timedelta(seconds=settings.timeout_s),
        "connect_timeout": timedelta(seconds=min(5.0, settings.timeout_s)),
        "allow_http": (settings.endpoint or "").startswith("http://"),
    }
    if settings.ca_file is not None:
        options["root_certificate"] = _certificates(settings.ca_file)
    config: S3Config = {
        "region": settings.region,
        "virtual_hosted_style_request": settings.virtual_hosted,
    }
    if settings.endpoint is not None:
        config["endpoint"] = settings.endpoint
    if settings.anonymous:
        config["skip_signature"] = True
    if settings.keys is not None:
        config["access_key_id"] = settings.keys.access_key_id
        config["secret_access_key"] = settings.keys.secret.get_secret_value()
        if settings.keys.token is not None:
            config["session_token"] = settings.keys.token.get_secret_value()
    return S3Store(
        settings.bucket,
        prefix=settings.prefix or None,
        config=config,
        client_options=options,
        retry_config={"max_retries": retries, "retry_timeout": timedelta(seconds=4 * settings.timeout_s)},
    )


def _certificates(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a name from the environment, as it is
            return file.read()
    except OSError as error:
        raise LakeError(
            f"The certificates '{path}' cannot be read: {error.strerror}.", remedy="Check AWS_CA_BUNDLE."
        ) from error


class Room:
    """Limit on the number of bytes in use by several threads; an item above the limit is admitted when it is
    alone."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._used = 0
        self._changed = threading.Condition()

    def take(self, n_bytes: int) -> None:
        """Wait until `n_bytes` are free, and reserve them."""
        with self._changed:
            self._changed.wait_for(lambda: not self._used or self._used + n_bytes <= self._limit)
            self._used += n_bytes

    def give_back(self, n_bytes: int) -> None:
        """Release the bytes of an item that is finished or failed."""
        with self._changed:
            self._used -= n_bytes
            self._changed.notify_all()
