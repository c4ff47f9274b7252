"""Decode OTLP protobuf: `ExportTraceServiceRequest` messages, as the Collector's exporters write them.

The native library (`wire`), if installed, reads all payloads in one pass, except payloads with bytes that it
does not understand. For the remaining payloads protobuf's own parser decides which are accepted, and ptars
converts these to nested Arrow arrays.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from ptars import HandlerPool

from ingest.codecs.dead_letters import RejectLog
from ingest.codecs.otlp.nested_values import json_of_elements
from ingest.codecs.otlp.otlp_arrow import OtlpArrowReader
from ingest.codecs.otlp.wire.library import Found, Library, native_library
from ingest.codecs.otlp.wire.reading import read_messages
from ingest.codecs.payloads import runs_of, sized
from ingest.codecs.port import Decoded
from ingest.codecs.spans.span_batch import SpanBatch, log_bad_spans
from ingest.codecs.spans.spans_to_events import SpanResult, decoded_spans, events_of_spans
from ingest.codecs.values.columns import owners, ragged
from ingest.codecs.values.protobuf import (
    GROUP_BYTES,
    MAX_FIELDS,
    PART_BYTES,
    batches_of,
    canonical,
    has_many_fields,
    message_classes,
    parses,
    refuse_foreign,
)
from schemas.config import DecodeConfig
from schemas.rejects import Reason, Reject

_DETAILS = {
    Reason.BAD_PROTOBUF: "no ExportTraceServiceRequest message",
    Reason.TOO_LARGE: f"more than {MAX_FIELDS:,} attributes, events and links: a span and its resource",
}
_MAX_NESTED_BYTES = 2**16
"""Maximum bytes of an array or object that is converted to JSON; of a larger one only the first
`max_text_bytes` would be kept."""
_ELEMENT_BYTES = 2
"""Minimum bytes of the tag and length before an element of a repeated field."""
_WALK_BYTES = 8 * 2**20
"""Approximate bytes of messages that the native library reads in one call: its tables take up to nine times
as much memory."""
_COLUMNS = message_classes(
    "flowdiff.otlp_columns",
    {
        "Request": "1 resource_spans *ResourceSpans",
        "ResourceSpans": "1 resource Resource; 2 scope_spans *ScopeSpans",
        "Resource": "1 attributes *KeyValue",
        "ScopeSpans": "2 spans *Span",
        "Span": "1 trace_id bytes; 2 span_id bytes; 3 trace_state string; 4 parent_span_id bytes;"
        "5 name string; 6 kind enum; 7 start_time_unix_nano fixed64; 8 end_time_unix_nano fixed64;"
        "9 attributes *KeyValue; 11 events *Event; 13 links *Link; 15 status Status",
        "Event": "1 time_unix_nano fixed64; 2 name string; 3 attributes *KeyValue",
        "Link": "1 trace_id bytes; 2 span_id bytes",
        "Status": "2 message string; 3 code enum",
        "KeyValue": "1 key string; 2 value AnyValue",
        "AnyValue": "1 string_value ?string; 2 bool_value ?bool; 3 int_value ?int64; 4 double_value ?double;"
        "5 array_value Values; 6 kvlist_value Values; 7 bytes_value ?bytes",
        "Values": "1 values *bytes",
    },
)
"""Protobuf message class that has only those fields of `ExportTraceServiceRequest` that are read, as ptars
makes a column of every field it knows."""
_HANDLER = HandlerPool([_COLUMNS["Request"].DESCRIPTOR.file]).get_for_message(_COLUMNS["Request"].DESCRIPTOR)


class OtlpProtoCodec:
    """`otlp-proto`: each payload is one request message."""

    name = "otlp-proto"

    def __init__(self, found: Found | None = None) -> None:
        """found: the native library, or the reason for its absence; None: the library of this
        installation."""
        self._library = (native_library() if found is None else found).library

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        """Decode payloads (`Codec.decode`). O(bytes)."""
        left, log = sized(payloads, config)
        reader = _Reader(payloads, config, log, self._library)
        left = reader.read_at_once(left)
        left = refuse_foreign(payloads, left, "no resource_spans in the message", log)
        one_by_one = [i for i in left if len(payloads[i]) > GROUP_BYTES]
        one_by_one += reader.read_grouped([i for i in left if len(payloads[i]) <= GROUP_BYTES])
        for index in one_by_one:
            reader.read_in_parts(index)
        return decoded_spans(reader.results, log)


class _Reader:
    """Reader of the payloads of one decode: collects events, and logs refused spans and payloads."""

    def __init__(
        self, payloads: Sequence[bytes], config: DecodeConfig, log: RejectLog, library: Library | None
    ) -> None:
        self.results: list[SpanResult] = []
        self._payloads = payloads
        self._config = config
        self._log = log
        self._library = library

    def take(self, spans: SpanBatch, part: bytes | None = None, first: int = 0) -> None:
        """Convert spans to events, and log refused spans.

        part: message that contains the spans, if it is a part of one payload; None: the spans are from whole
        payloads. first: item number of the part's first span.
        """
        result = events_of_spans(spans, self._config)
        bad = result.bad
        if part is None:
            log_bad_spans(bad, lambda payload: _raw_spans(self._payloads[payload]), self._log)
        elif len(bad):
            bad = replace(bad, item=bad.item + first)
            log_bad_spans(bad, lambda _: _raw_spans(part, first), self._log)
        if len(result.payload):  # a result without events would only keep refused spans in memory
            self.results.append(result)

    def read_at_once(self, indexes: list[int]) -> list[int]:
        """Read payloads of at most GROUP_BYTES with the native library, many per call.

        Returns the indexes of the payloads not read: larger ones, and those that the library does not
        understand; all of them if it is not installed.
        """
        if self._library is None:
            return indexes
        left = {i for i in indexes if len(self._payloads[i]) > GROUP_BYTES}
        small = [i for i in indexes if i not in left]
        for group in runs_of(small, [len(self._payloads[i]) for i in small], _WALK_BYTES):
            read = self._walk(group, [self._payloads[i] for i in group])
            left.update(set(group).difference(read))
        return sorted(left)

    def _walk(self, indexes: list[int], messages: list[bytes]) -> list[int]:
        """Read messages with the native library; return the payload indexes of the messages that it
        understood."""
        if self._library is None or not messages:
            return []
        result, read = read_messages(self._library, messages, indexes, self._config)
        if result is not None:
            self.results.append(result)
        return read

    def read_grouped(self, indexes: list[int]) -> list[int]:
        """Read payloads of at most GROUP_BYTES with protobuf's parser and ptars; return the indexes of dense
        payloads (`batches_of`), which are not read."""
        pieces = []
        left: set[int] = set()
        for group in runs_of(indexes, [len(self._payloads[i]) for i in indexes], GROUP_BYTES):
            numbers = self._written_anew(self._accepted(group))
            left.update(numbers)
            for part, column in _columns_of([self._payloads[i] for i in numbers]):
                pieces.append(([numbers[place] for place in part], column))
                left.difference_update(pieces[-1][0])
        if pieces:
            self.take(_span_batch(pieces))
        return sorted(left)

    def _accepted(self, indexes: list[int]) -> list[int]:
        """Indexes of the payloads that protobuf's parser accepts; the other payloads are refused and
        logged."""
        accepted = []
        for index in indexes:
            if parses(ExportTraceServiceRequest, self._payloads[index]):
                accepted.append(index)
            else:
                self._refuse(Reason.BAD_PROTOBUF, index, 0, self._payloads[index])
        return accepted

    def _written_anew(self, indexes: list[int]) -> list[int]:
        """Rewrite, with protobuf, payloads that are not in canonical form, and read the result with the
        native library.

        Returns the indexes of the payloads not read.
        """
        if self._library is None:
            return indexes
        odd = {}
        for index in indexes:
            message = canonical(ExportTraceServiceRequest, self._payloads[index])
            if message and message != self._payloads[index]:
                odd[index] = message
        read = set(self._walk([*odd], [*odd.values()]))
        return [i for i in indexes if i not in read]

    def read_in_parts(self, index: int) -> None:
        """Read a payload of any size in parts of about a megabyte; dense or refused parts are read in smaller
        parts.

        If the payload is malformed, only its malformed parts are lost.
        """
        item = 0
        try:
            for part in cut_request(self._payloads[index], GROUP_BYTES):
                # The fields of an uncut span are counted first: its columns alone could take 250 MB.
                is_crowded = len(part) > 2 * GROUP_BYTES and has_many_fields(
                    part, ExportTraceServiceRequest.DESCRIPTOR
                )
                if not is_crowded and (spans := _spans_of_part(part, GROUP_BYTES)) is not None:
                    self._take_part(index, item, part, spans)
                    item += len(spans)
                    continue
                for smaller in cut_request(part, PART_BYTES):
                    item += self._read_closely(index, item, smaller)
        except DecodeError:
            self._refuse(Reason.BAD_PROTOBUF, index, item, self._payloads[index])

    def _take_part(self, index: int, item: int, part: bytes, spans: SpanBatch) -> None:
        self.take(replace(spans, payload=np.full(len(spans), index)), part, item)

    def _read_closely(self, index: int, item: int, part: bytes) -> int:
        """Read a part of about PART_BYTES, or refuse it; return its number of spans. index: payload; item:
        item number of the part's first span."""
        # With a resource of PART_BYTES a part is twice as large; a larger one could not be cut.
        if len(part) > 2 * PART_BYTES and has_many_fields(part, ExportTraceServiceRequest.DESCRIPTOR):
            n_spans = count_spans(part)
            self._refuse(Reason.TOO_LARGE, index, item, part)
            self._log.count(Reason.TOO_LARGE, max(n_spans, 1) - 1)
            return n_spans
        spans = _spans_of_part(part, PART_BYTES)
        if spans is None:
            self._refuse(Reason.BAD_PROTOBUF, index, item, part)
            return count_spans(part)
        self._take_part(index, item, part, spans)
        return len(spans)

    def _refuse(self, reason: Reason, index: int, item: int, raw: bytes) -> None:
        self._log.add(Reject(reason, _DETAILS[reason], raw, index, item))


def _spans_of_part(part: bytes, group_bytes: int) -> SpanBatch | None:
    """Span columns of the message `part`; None if protobuf refuses the message, or it is dense
    (`batches_of`)."""
    if not parses(ExportTraceServiceRequest, part):
        return None
    for places, column in _columns_of([part], group_bytes):
        return _span_batch([(places, column)])
    return None


def _columns_of(
    messages: Sequence[bytes], group_bytes: int = GROUP_BYTES
) -> Iterator[tuple[list[int], pa.Array]]:
    """Yield (positions, `list<ResourceSpans>` column) for groups of messages that protobuf accepts;
    positions: indexes into `messages`.

    Like `batches_of`; dense groups are left out. If a oneof occurs several times in a value, ptars keeps all
    members and protobuf the last one: messages with such a value are first rewritten by protobuf.
    """
    for part, batch in batches_of(_HANDLER, messages, group_bytes):
        column = batch.column(0)
        if _has_rivals(column):
            written = (canonical(ExportTraceServiceRequest, messages[place]) for place in part)
            column = _HANDLER.list_to_record_batch([m for m in written if m is not None]).column(0)
        yield part, column


def _has_rivals(column: pa.Array) -> bool:
    """True if any `AnyValue`, at any level, has two members set. O(rows / 8), for columns without offset."""
    if pa.types.is_list(column.type):
        return _has_rivals(column.values)
    if not pa.types.is_struct(column.type):
        return False
    members = [column.field(place) for place in range(column.type.num_fields)]
    if column.type.get_field_index("string_value") < 0:
        return any(map(_has_rivals, members))
    seen = np.zeros((len(column) + 7) // 8, np.uint8)
    for member in members:
        valid = np.frombuffer(pc.is_valid(member).buffers()[1], np.uint8)[: len(seen)]
        if (seen & valid).any():
            return True
        seen |= valid
    return False


def _span_batch(pieces: list[tuple[list[int], pa.Array]]) -> SpanBatch:
    """Concatenate pieces (payload indexes, column) to one batch of span columns; `payload` in the batch is
    the payload index."""
    columns = [column for _, column in pieces]
    spans = _READER.spans(columns[0] if len(columns) == 1 else pa.concat_arrays(columns))
    index = np.array([i for part, _ in pieces for i in part], np.int64)
    return replace(spans, payload=index[spans.payload])


def _nested_text(column: pa.Array, which: str) -> pa.Array:
    """[rows] nested attribute values of one field (`which`) as text: base64 of bytes, compact JSON of arrays
    and key-value lists, whose elements ptars leaves serialised.

    Python runs per distinct value, as values such as command lines repeat in every resource.
    """
    if which == "bytes_value":
        return pa.array(
            [None if v is None else base64.b64encode(v).decode() for v in column.to_pylist()], pa.string()
        )
    known: dict[tuple[bytes, ...], str] = {}
    out: list[str | None] = []
    large = _large_values(column)
    for row, value in enumerate(pc.if_else(pa.array(large == 0), column, None).to_pylist()):
        if value is None:
            out.append(f"({large[row]} bytes)" if large[row] else None)
            continue
        elements = tuple(value["values"] or ())
        if elements not in known:
            known[elements] = json_of_elements(elements, is_list=which == "array_value")
        out.append(known[elements])
    return pa.array(out, pa.string())


def _large_values(column: pa.Array) -> npt.NDArray[np.int64]:
    """[rows] size in bytes of each value that is too large to be converted to JSON; 0 for the other
    values."""
    lengths, elements = ragged(pc.struct_field(column, "values"))
    sizes = pc.binary_length(elements).to_numpy(zero_copy_only=False) + _ELEMENT_BYTES
    total = np.bincount(owners(lengths), sizes, len(column)).astype(np.int64)
    return np.where(total > _MAX_NESTED_BYTES, total, 0)


def _raw_spans(payload: bytes, first: int = 0) -> Callable[[int], bytes]:
    """Function from an item number to the bytes of that span; to the whole message if protobuf cannot parse
    it. first: item number of the message's first span."""
    try:
        spans = list(spans_of(parse_request(payload)))
    except DecodeError:
        return lambda _: payload
    return lambda item: spans[item - first].SerializeToString()


_READER = OtlpArrowReader(lambda name: name, _nested_text)


def parse_request(payload: bytes) -> ExportTraceServiceRequest:
    """Parse an `ExportTraceServiceRequest`. Raises google.protobuf.message.DecodeError."""
    request: ExportTraceServiceRequest = ExportTraceServiceRequest.FromString(payload)
    return request


def spans_of(request: ExportTraceServiceRequest) -> Iterator[Span]:
    """Yield the spans of a message, in the order of their item numbers."""
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            yield from scope.spans


_LEVELS = message_classes(
    "flowdiff.otlp",
    {
        "Request": "1 resource_spans *bytes",
        # Single fields are repeated here, too, so that a field that was written twice is preserved.
        "Resource": "1 resource *bytes; 2 scope_spans *bytes",
        "Scope": "1 scope *bytes; 2 spans *bytes",
    },
)
"""Protobuf message classes of the three outer levels, in which the next inner level is uninterpreted
bytes."""
_Request, _Resource, _Scope = (_LEVELS[name] for name in ("Request", "Resource", "Scope"))


def cut_request(payload: bytes, part_bytes: int) -> Iterator[bytes]:
    """Split a message into messages of about `part_bytes`, or of one span; spans keep their order.

    Each part repeats its resource, in addition to `part_bytes`. Raises google.protobuf.message.DecodeError if
    an outer level is malformed, possibly after it yielded parts.
    """
    if len(payload) <= part_bytes:
        yield payload
        return
    for blocks in _runs(_Request.FromString(payload).resource_spans, part_bytes):
        if len(blocks[0]) <= part_bytes:
            yield _Request(resource_spans=blocks).SerializeToString()
            continue
        resource = _Resource.FromString(blocks[0])
        for scopes in _runs(resource.scope_spans, part_bytes):
            if len(scopes[0]) <= part_bytes:
                yield _message(resource, scopes)
                continue
            for spans in _runs(_Scope.FromString(scopes[0]).spans, part_bytes):
                yield _message(resource, [_Scope(spans=spans).SerializeToString()])


def _runs(bodies: Sequence[bytes], part_bytes: int) -> Iterator[list[bytes]]:
    """Group the elements of a repeated field, each with tag and length, into runs of at most `part_bytes`."""
    return runs_of(bodies, [len(body) + _ELEMENT_BYTES for body in bodies], part_bytes)


def count_spans(payload: bytes) -> int:
    """Number of spans in a message. Raises google.protobuf.message.DecodeError."""
    return sum(
        len(_Scope.FromString(scope).spans)
        for block in _Request.FromString(payload).resource_spans
        for scope in _Resource.FromString(block).scope_spans
    )


def _message(resource: Any, scopes: list[bytes]) -> bytes:
    block = _Resource(resource=resource.resource, scope_spans=scopes).SerializeToString()
    message: bytes = _Request(resource_spans=[block]).SerializeToString()
    return message
