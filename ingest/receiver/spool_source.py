"""Read a spool as a `LiveSource`: as a consumer group with a single member, to which every stream of the
spool is assigned."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from ingest.messages import payloads_of_messages
from ingest.receiver.spool import Spool, SpoolRead
from ingest.source import (
    CorruptStreamError,
    CutBackError,
    GapError,
    Payloads,
    Place,
    StreamChange,
    StreamId,
    TopicChangedError,
)
from schemas.config import DecodeConfig
from schemas.rejects import Reason, Reject

CLUSTER_ID: Final = "otlp"
"""Cluster id in commits of OTLP lanes. No Kafka cluster has this id, so a lane that is switched between Kafka
and OTLP cannot resume at a position of the other log."""


class SpoolSource:
    """Streams of a spool, named after their formats, all in the lane of one partition; a `LiveSource`."""

    def __init__(self, spool: Spool, partition: int, decode: DecodeConfig) -> None:
        self._spool = spool
        self._partition = partition
        self._decode = decode
        self._known: set[str] = set()
        """Names of the streams that were reported as gained."""
        self._paused: set[StreamId] = set()
        self._readers: dict[StreamId, Iterator[SpoolRead | None]] = {}
        self._positions: dict[StreamId, int] = {}
        self._turn: deque[StreamId] = deque()
        self._pieces: deque[tuple[StreamId, Iterator[Payloads]]] = deque()

    @property
    def cluster_id(self) -> str | None:
        """Fixed id in place of a cluster's id, the same for every spool."""
        return CLUSTER_ID

    @property
    def trouble(self) -> str | None:
        """Reason why the receiver refuses messages, as a sentence; None: no problem. Messages already stored
        can be read in any case."""
        return self._spool.trouble

    def change(self) -> StreamChange:
        """Streams that got their first message since the last call: these are gained, and no stream is ever
        lost."""
        new = sorted(self._spool.streams().keys() - self._known)
        self._known.update(new)
        return StreamChange(gained=tuple(StreamId(name, self._partition) for name in new))

    def poll(self, timeout_s: float) -> Payloads | None:
        """Next payloads of one stream; None if no message arrived in time (`LiveSource.poll`)."""
        payloads = self._next()
        if payloads is None:
            positions = {stream.topic: at for stream, at in self._positions.items()}
            paused = {stream.topic: self._spool.bounds(stream.topic)[1] for stream in self._paused}
            known = dict.fromkeys(self._known, 2**63)
            self._spool.wait({**known, **positions, **paused}, timeout_s)
            payloads = self._next()
        return payloads

    def _next(self) -> Payloads | None:
        """Next payloads, taking streams in turn; None if no stream has any."""
        for _ in range(len(self._pieces)):
            stream, pieces = self._pieces[0]
            if stream in self._paused:
                self._pieces.rotate(-1)
            elif (piece := next(pieces, None)) is not None:
                return piece
            else:
                self._pieces.popleft()
        for _ in range(len(self._turn)):
            stream = self._turn[0]
            self._turn.rotate(-1)
            if stream in self._paused or (read := self._read(stream)) is None:
                continue
            payloads = self._payloads(stream, read)
            if payloads is not None:
                return payloads
        return None

    def _read(self, stream: StreamId) -> SpoolRead | None:
        try:
            return next(self._readers[stream])
        except OSError as error:
            self._forget(stream)
            raise CorruptStreamError(
                f"{stream.name}: the spool cannot be read: {error.strerror or error}.",
                stream=stream,
                remedy="Restore its files; the next start goes on where the lake is.",
            ) from error

    def _payloads(self, stream: StreamId, read: SpoolRead) -> Payloads | None:
        position, self._positions[stream] = self._positions[stream], read.until
        pieces = payloads_of_messages(
            stream.name,
            stream.topic,
            read.messages,
            range(read.start, read.until),
            read.until,
            self._decode,
        )
        self._pieces.append((stream, pieces))
        if read.start > position:
            what = f"messages {position} to {read.start - 1} of the spool are lost: their file is damaged"
            return Payloads(
                stream.name, None, [], [], read.start, [Reject(Reason.BAD_COMPRESSION, what, b"", position)]
            )
        return self._next()

    def start(self, stream: StreamId, place: Place | None) -> Place:
        """Start reading a gained stream at `place`; return the place at which it really starts
        (`LiveSource.start`)."""
        topic_id = self._spool.streams()[stream.topic]
        first, end = self._spool.bounds(stream.topic)
        if place is not None and place.topic_id not in (None, topic_id):
            raise TopicChangedError(stream)
        offset = first if place is None else place.offset
        if offset < first:
            raise GapError(stream, offset, first)
        if offset > end:
            raise CutBackError(stream, offset, end)
        self._forget(stream)
        self._readers[stream] = self._spool.reader(stream.topic, offset)
        self._positions[stream] = offset
        self._turn.append(stream)
        return Place(offset, topic_id)

    def release(self, streams: Collection[StreamId]) -> None:
        """Release streams after their messages were committed."""
        for stream in streams:
            self._forget(stream)

    def _forget(self, stream: StreamId) -> None:
        self._readers.pop(stream, None)
        self._positions.pop(stream, None)
        self._paused.discard(stream)
        self._pieces = deque(each for each in self._pieces if each[0] != stream)
        if stream in self._turn:
            self._turn.remove(stream)

    def pause(self, streams: Collection[StreamId]) -> None:
        """Stop reading streams."""
        self._paused |= set(streams)

    def resume(self, streams: Collection[StreamId]) -> None:
        """Resume reading streams."""
        self._paused -= set(streams)

    def ends(self) -> Mapping[StreamId, int]:
        """Stream -> number that its next message will get."""
        return {stream: self._spool.bounds(stream.topic)[1] for stream in self._readers}

    def commit_offsets(self, positions: Mapping[StreamId, int]) -> bool:
        """Report that the lake has all messages before the given positions, so that their files are removed.
        Returns True."""
        for stream, position in positions.items():
            self._spool.committed(stream.topic, position)
        return True

    def close(self) -> None:
        """Stop reading. The spool stays open: it belongs to the receiver."""
