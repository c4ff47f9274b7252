"""Zipkin protobuf: `zipkin.proto3.ListOfSpans` messages, one a payload.

ptars reads all payloads at once. What it refuses, and what is large or dense, is cut at its spans: those are
read in small groups, and at last one by one, so that a malformed span costs itself only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError
from ptars import HandlerPool

from ingest.codecs.dead_letters import RejectLog
from ingest.codecs.payloads import sized
from ingest.codecs.port import Decoded
from ingest.codecs.spans.span_batch import log_bad_spans
from ingest.codecs.spans.spans_to_events import SpanResult, events_of_spans, in_payload_order
from ingest.codecs.values.field_count import MAX_FIELDS, has_many_fields
from ingest.codecs.values.foreign_messages import refuse_foreign
from ingest.codecs.values.nested import GROUP_BYTES, PART_BYTES, batches_of, runs_of_pieces
from ingest.codecs.zipkin.zipkin import zipkin_oddities
from ingest.codecs.zipkin.zipkin_columns import ZipkinColumns, span_batch
from ingest.codecs.zipkin.zipkin_messages import (
    ListOfSpans,
    SpanBodies,
    ZipkinMessage,
    columns_of_messages,
    struct_of_message,
)
from ingest.codecs.zipkin.zipkin_structs import ZipkinSpan, columns_of_structs
from schemas.config import DecodeConfig
from schemas.rejects import Reason, Reject

_HANDLER = HandlerPool([ListOfSpans.DESCRIPTOR.file]).get_for_message(ListOfSpans.DESCRIPTOR)
_FEW = 100
"""So few spans are read one by one at once."""
_MOST_SINGLES = 5_000
_DETAILS = {
    Reason.BAD_PROTOBUF: "no zipkin.proto3.ListOfSpans message",
    Reason.TOO_LARGE: f"the span has more than {MAX_FIELDS:,} tags and annotations",
}


class ZipkinProtoCodec:
    """`zipkin-proto`: one list of spans a payload. Oddities: those of `zipkin`."""

    name = "zipkin-proto"

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        """See `Codec.decode`; `item` is the span in its list. O(bytes)."""
        good, log = sized(payloads, config)
        good = refuse_foreign(payloads, good, "no spans in the message", log)
        reader = _Reader(payloads, config, log)
        left = reader.read_whole([i for i in good if len(payloads[i]) <= GROUP_BYTES])
        for index in sorted(left.union(i for i in good if len(payloads[i]) > GROUP_BYTES)):
            reader.read_in_parts(index)
        reader.take_singles()
        events = in_payload_order(reader.results)
        oddities = sum((r.oddities for r in reader.results), Counter[str]())
        return Decoded(events, log.in_order(), oddities + zipkin_oddities(events), log.counts)


class _Reader:
    """Collects events of one decode, and logs what becomes none."""

    def __init__(self, payloads: Sequence[bytes], config: DecodeConfig, log: RejectLog) -> None:
        self.results: list[SpanResult] = []
        self._payloads = payloads
        self._config = config
        self._log = log
        self._singles: dict[tuple[int, int], ZipkinSpan] = {}
        """Spans read one by one, by payload and item; a call of ptars for each would cost 2 ms."""

    def read_whole(self, indexes: list[int]) -> set[int]:
        """Payloads up to GROUP_BYTES, all at once: the fast path. Those that it did not read."""
        pieces = list(batches_of(_HANDLER, ListOfSpans, self._payloads, indexes))
        read = [i for part, _ in pieces for i in part]
        if pieces:
            columns = columns_of_messages(pa.concat_arrays([batch.column(0) for _, batch in pieces]))
            payload = np.array(read, np.int64)[columns.payload]
            self._take(replace(columns, payload=payload), self._bodies)
        return set(indexes).difference(read)

    def read_in_parts(self, index: int) -> None:
        """A payload that is large or dense, or that ptars refuses: its spans a part at a time."""
        payload, item = self._payloads[index], 0
        try:
            bodies = SpanBodies.FromString(payload).spans
        except DecodeError:
            self._refuse(Reason.BAD_PROTOBUF, index, 0, payload)
            return
        for run in runs_of_pieces(bodies, GROUP_BYTES):
            at = item
            item += len(run)
            if len(payload) > PART_BYTES >= len(run[0]) and self._read_part(index, at, run, GROUP_BYTES):
                continue
            for part in runs_of_pieces(run, PART_BYTES):
                self._read_closely(index, at, part)
                at += len(part)

    def _read_part(self, index: int, first: int, bodies: list[bytes], group_bytes: int) -> bool:
        """Read spans of a payload, from item `first` on; False if ptars refuses them, or they are dense."""
        part: bytes = SpanBodies(spans=bodies).SerializeToString()
        for _, batch in batches_of(_HANDLER, ListOfSpans, [part], [0], group_bytes):
            columns = columns_of_messages(batch.column(0))
            if len(columns.payload) != len(bodies):
                return False
            items = np.arange(first, first + len(bodies))
            placed = replace(columns, payload=np.full(len(bodies), index), item=items)
            self._take(placed, lambda _: lambda item: bodies[item - first])
            return True
        return False

    def _read_closely(self, index: int, first: int, bodies: list[bytes]) -> None:
        """A part of about PART_BYTES, or one span; at last span by span."""
        if len(bodies[0]) > PART_BYTES and has_many_fields(bodies[0], ZipkinMessage.DESCRIPTOR):
            self._refuse(Reason.TOO_LARGE, index, first, bodies[0])
            return
        if len(bodies) > _FEW and self._read_part(index, first, bodies, PART_BYTES):
            return
        for item, body in enumerate(bodies, first):
            try:
                span = struct_of_message(ZipkinMessage.FromString(body))
            except DecodeError:
                self._refuse(Reason.BAD_PROTOBUF, index, item, body)
            else:
                self._singles[index, item] = span
                if len(self._singles) >= _MOST_SINGLES:
                    self.take_singles()

    def take_singles(self) -> None:
        """Events of the spans that were read one by one."""
        if self._singles:
            places = np.array(list(self._singles), np.int64)
            columns = columns_of_structs(list(self._singles.values()), places[:, 0], places[:, 1])
            self._take(columns, self._bodies)
            self._singles = {}

    def _take(self, columns: ZipkinColumns, open_payload: Callable[[int], Callable[[int], bytes]]) -> None:
        """Events of the spans; those refused with their own bytes."""
        result = events_of_spans(span_batch(columns, self._config), self._config)
        log_bad_spans(result.bad, open_payload, self._log)
        self.results.append(result)

    def _bodies(self, index: int) -> Callable[[int], bytes]:
        """Bytes of a span of a payload by item; of the whole payload if protobuf itself refuses it."""
        try:
            bodies = SpanBodies.FromString(self._payloads[index]).spans
        except DecodeError:
            return lambda _: self._payloads[index]
        return lambda item: bytes(bodies[item])

    def _refuse(self, reason: Reason, index: int, item: int, raw: bytes) -> None:
        self._log.add(Reject(reason, _DETAILS[reason], raw, index, item))
