"""Decode payloads to events and dead letters, in limited memory."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from ingest.codecs.dead_letters import MAX_KEPT_BYTES, RejectLog
from ingest.codecs.port import Decoded
from ingest.formats import codec_for
from ingest.source import Payloads
from schemas.config import MAX_KEPT, DecodeConfig
from schemas.events import concat_events, empty_events
from schemas.rejects import REJECT_SCHEMA, Reject, rejects_table

BATCH_EVENTS: Final = 100_000
"""Minimum number of events in a batch; only the last batch may have fewer."""


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """Events decoded from some polls, with their dead letters and counts."""

    events: pa.Table
    rejects: pa.Table
    """Dead letters of the batch, REJECT_SCHEMA; at most MAX_KEPT per source."""
    oddities: Counter[str]
    refused: Counter[str]
    """Reason -> number of refused items, including those without a dead letter."""


@dataclass(slots=True)
class _Batch:
    """A DecodedBatch that is being collected."""

    tables: list[pa.Table] = field(default_factory=list)
    rejects: list[pa.Table] = field(default_factory=list)
    oddities: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    reject_bytes: int = 0

    def add_rejects(self, rejects: list[Reject], stream: str, positions: list[int]) -> None:
        table = rejects_table(rejects, stream, positions)
        self.rejects.append(table)
        self.reject_bytes += table.nbytes

    def made(self) -> DecodedBatch:
        rejects = pa.concat_tables([REJECT_SCHEMA.empty_table(), *self.rejects])
        return DecodedBatch(concat_events(self.tables), rejects, self.oddities, self.refused)


def decode_polls(
    polls: Iterator[Payloads],
    config: DecodeConfig,
    *,
    batch_events: int = BATCH_EVENTS,
    pool: Executor | None = None,
    ahead: int = 0,
) -> Iterator[DecodedBatch]:
    """Decode polls, and yield batches of at least `batch_events` events; the last may have fewer.

    A batch also ends when its dead letters take MAX_KEPT_BYTES. With a pool, up to `ahead` polls are decoded
    in it while others are read, which does not change the batches. There is always at least one batch. Raises
    the exceptions of `polls`.
    """
    batch = _Batch()
    room = MAX_KEPT
    yielded = False
    for payloads, decoded in _decoded(polls, config, pool, ahead):
        outside = RejectLog(config)
        for reject in payloads.rejects:
            outside.add(reject)
        batch.tables.append(decoded.events)
        batch.rows += decoded.events.num_rows
        batch.oddities.update(decoded.oddities)
        batch.refused.update(decoded.refused)
        batch.refused.update(outside.counts)
        inside, of_source = decoded.rejects[:room], outside.in_order()
        batch.add_rejects(inside, payloads.stream, payloads.positions)
        of_source = of_source[: room - len(inside)]
        room -= len(inside) + len(of_source)
        by_index = [replace(reject, payload=i) for i, reject in enumerate(of_source)]
        batch.add_rejects(by_index, payloads.stream, [reject.payload for reject in of_source])
        if batch.rows >= batch_events or batch.reject_bytes >= MAX_KEPT_BYTES:
            yield batch.made()
            batch, yielded = _Batch(), True
    if batch.tables or not yielded:
        yield batch.made()


def _decoded(
    polls: Iterator[Payloads], config: DecodeConfig, pool: Executor | None, ahead: int
) -> Iterator[tuple[Payloads, Decoded]]:
    """Yield every poll with its decoded events, in order.

    Meanwhile the pool decodes up to `ahead` further polls.
    """
    waiting: deque[tuple[Payloads, Future[Decoded]]] = deque()
    for payloads in polls:
        decode = _nothing_to_decode if payloads.format is None else codec_for(payloads.format).decode
        if pool is None:
            yield payloads, decode(payloads.payloads, config)
            continue
        waiting.append((payloads, pool.submit(decode, payloads.payloads, config)))
        if len(waiting) > ahead:
            done, future = waiting.popleft()
            yield done, future.result()
    for done, future in waiting:
        yield done, future.result()


def _nothing_to_decode(_payloads: Sequence[bytes], _config: DecodeConfig) -> Decoded:
    """Result of decoding a poll that has only rejects."""
    return Decoded(empty_events(), [])
