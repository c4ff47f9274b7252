"""Decode payloads in threads; results come in the order of the payloads.

A decode has a fixed cost of about 10 ms, so the messages of a stream are gathered for up to GATHERED_NS and
decoded together.
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
"""Number of decoding threads: DuckDB and Arrow release Python's lock while they decode, ptars does so in
part."""
AHEAD: Final = 3
"""Maximum number of pending decodes."""
GATHERED_BYTES: Final = 4 * 2**20
"""Bytes of gathered messages that trigger a decode."""
GATHERED_SHARE: Final = 96
"""The memory budget divided by this is the number of gathered bytes that triggers a decode: decoded events
take ten times as much memory, and several decodes are pending at a time."""
GATHERED_MESSAGES: Final = 20_000
"""Number of gathered messages that triggers a decode."""
GATHERED_NS: Final = 250_000_000
"""Maximum time for which messages are gathered before they are decoded, ns."""


@dataclass(slots=True)
class _Gathering:
    """Messages polled from one stream, all in one format, that are not decoded yet."""

    since_ns: int
    """Time of the first poll with one of the messages, ns."""
    polls: list[Payloads]
    """Messages in the order of their polls, all in one format."""
    bytes: int = 0
    """Total size of the messages."""
    messages: int = 0
    """Total number of messages."""

    def is_enough(self, now_ns: int, n_bytes: int) -> bool:
        """True if the messages must be decoded now: at least `n_bytes` bytes, GATHERED_MESSAGES messages, or
        GATHERED_NS have been gathered."""
        return (
            self.bytes >= n_bytes
            or self.messages >= GATHERED_MESSAGES
            or now_ns - self.since_ns >= GATHERED_NS
        )


class Decoders:
    """Queue of payloads to be decoded; results come in the order of submission. Used by one thread; `now_ns`
    is the current time, ns."""

    def __init__(self, config: DecodeConfig, memory_bytes: int = GATHERED_SHARE * GATHERED_BYTES) -> None:
        self._enough = min(GATHERED_BYTES, memory_bytes // GATHERED_SHARE)
        self._config = config
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="decode")
        self._under_way: deque[tuple[StreamId, Payloads, Future[Decoded]]] = deque()
        self._gathered: dict[StreamId, _Gathering] = {}

    def __bool__(self) -> bool:
        """True if payloads are gathered or being decoded."""
        return bool(self._under_way or self._gathered)

    def give(self, stream: StreamId, payloads: Payloads, now_ns: int) -> None:
        """Add the messages of one poll of a stream to those gathered."""
        gathering = self._gathered.get(stream)
        if gathering is not None and gathering.polls[0].format != payloads.format:
            self._send(stream)
            gathering = None
        if gathering is None:
            gathering = self._gathered[stream] = _Gathering(now_ns, [])
        gathering.polls.append(payloads)
        gathering.bytes += sum(map(len, payloads.payloads))
        gathering.messages += len(payloads.payloads)

    def take(self, now_ns: int, *, drain: bool = False) -> Iterator[tuple[StreamId, Payloads, Decoded]]:
        """Yield (stream, merged polls, decoded events) of finished decodes, in order of submission.

        Blocks while more than AHEAD decodes are pending; with `drain`, submits and awaits all of them.
        """
        for stream, gathering in [*self._gathered.items()]:
            if drain or gathering.is_enough(now_ns, self._enough):
                self._send(stream)
        while self._under_way and (drain or len(self._under_way) > AHEAD or self._under_way[0][2].done()):
            stream, payloads, decoded = self._under_way.popleft()
            yield stream, payloads, decoded.result()

    def _send(self, stream: StreamId) -> None:
        """Submit the gathered messages of a stream to a decoding thread."""
        payloads = joined(self._gathered.pop(stream).polls)
        if payloads.format is None:  # rejects alone
            done: Future[Decoded] = Future()
            done.set_result(Decoded(empty_events(), []))
        else:
            done = self._pool.submit(codec_for(payloads.format).decode, payloads.payloads, self._config)
        self._under_way.append((stream, payloads, done))

    def close(self) -> None:
        """Shut down the decoding threads."""
        self._pool.shutdown()


def joined(polls: Sequence[Payloads]) -> Payloads:
    """Merge consecutive polls of one stream, all in one format, into one poll."""
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
        epoch=polls[-1].epoch,
    )
