"""Payloads on their way through the codecs: decoded in threads, given back in the order in which they came.

A decode has fixed costs of some 5 ms, so consecutive polls of a stream are gathered, as long as the threads
have other things to do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from ingest.codecs.port import Decoded
from ingest.formats import codec_for
from ingest.source import Payloads, StreamId
from schemas.config import DecodeConfig
from schemas.events import empty_events

THREADS: Final = 2
"""DuckDB and Arrow free the lock, ptars partly."""
AHEAD: Final = 3
"""Decodes on their way at most."""
GATHERED_BYTES: Final = 4 * 2**20
"""Enough for one decode."""
GATHERED_MESSAGES: Final = 20_000


@dataclass(frozen=True, slots=True)
class _UnderWay:
    stream: StreamId
    payloads: Payloads
    decoded: Future[Decoded]


class Decoders:
    """Used by one thread."""

    def __init__(self, config: DecodeConfig) -> None:
        self._config = config
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="decode")
        self._under_way: deque[_UnderWay] = deque()
        self._gathered: list[Payloads] = []
        """Of `_stream`, one format."""
        self._stream: StreamId | None = None
        self._bytes = 0
        self._messages = 0

    def __bool__(self) -> bool:
        """Whether something is on its way."""
        return bool(self._under_way or self._gathered)

    def give(self, stream: StreamId, payloads: Payloads) -> None:
        """One poll of a stream."""
        if self._gathered and (stream != self._stream or payloads.format != self._gathered[-1].format):
            self._send()
        self._stream = stream
        self._gathered.append(payloads)
        self._bytes += sum(map(len, payloads.payloads))
        self._messages += len(payloads.payloads)
        idle = len(self._under_way) < THREADS
        if idle or self._bytes >= GATHERED_BYTES or self._messages >= GATHERED_MESSAGES:
            self._send()

    def take(self, *, drain: bool = False) -> Iterator[tuple[StreamId, Payloads, Decoded]]:
        """What is decoded, in order; waits where too much is on its way, and for all of it to `drain`."""
        if drain:
            self._send()
        wait = len(self._under_way) >= AHEAD
        while self._under_way and (drain or wait or self._under_way[0].decoded.done()):
            wait = False
            one = self._under_way.popleft()
            yield one.stream, one.payloads, one.decoded.result()

    def _send(self) -> None:
        """Let what was gathered be decoded."""
        if not self._gathered or self._stream is None:
            return
        payloads = joined(self._gathered)
        self._gathered, self._bytes, self._messages = [], 0, 0
        if payloads.format is None:  # rejects alone
            done: Future[Decoded] = Future()
            done.set_result(Decoded(empty_events(), []))
        else:
            done = self._pool.submit(codec_for(payloads.format).decode, payloads.payloads, self._config)
        self._under_way.append(_UnderWay(self._stream, payloads, done))

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()


def joined(polls: Sequence[Payloads]) -> Payloads:
    """Consecutive polls of one stream, of one format, as one."""
    if len(polls) == 1:
        return polls[0]
    times = [poll.latest_ns for poll in polls if poll.latest_ns is not None]
    return Payloads(
        stream=polls[0].stream,
        format=polls[0].format,
        payloads=[payload for poll in polls for payload in poll.payloads],
        positions=[position for poll in polls for position in poll.positions],
        until=polls[-1].until,
        rejects=[reject for poll in polls for reject in poll.rejects],
        latest_ns=max(times, default=None),
    )
