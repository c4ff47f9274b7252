"""JSON documents given to pyarrow all at once; a refused list is halved until the culprits are few."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pyarrow as pa
import pyarrow.json as pj

from ingest.codecs.payloads import JSON_ERRORS, runs_of
from ingest.codecs.spans.span_batch import SpanBatch
from ingest.codecs.spans.spans_to_events import SpanResult, events_of_spans
from schemas.config import DecodeConfig

_FEW, _FEW_BYTES = 4, 64 * 2**10
"""A refused list of so many documents, or bytes, is read item by item rather than halved again: a call of
pyarrow costs 2 ms whatever it reads, so halving 400,000 refused lines of 15 bytes took 94 s."""
_RUN_BYTES = 64 * 2**20
"""Documents are given to pyarrow in runs of about this size: its offsets are 32 bit."""

ColumnsOf = Callable[[list[int]], SpanBatch | None]
"""Span columns of the documents of these indexes (`payload`: index); None if they are spelt otherwise."""


class _Nothing(msgspec.Struct):
    """Any object: decoding into it checks the grammar and skips the contents, at about 1.6 GB/s."""


_ANY_OBJECT = msgspec.json.Decoder(_Nothing)


def is_plain_object(text: bytes) -> bool:
    """Exactly one well-formed JSON object in UTF-8, not too deep.

    pyarrow.json must see nothing else: it takes several values in a row for several documents, does not check
    UTF-8, and crashes the process on input that is a lone `null`.
    """
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            return False
    try:
        _ANY_OBJECT.decode(text)
    except JSON_ERRORS:
        return False
    return True


def json_table(texts: Sequence[bytes], parse: pj.ParseOptions) -> pa.Table:
    """A row for each text, each a plain object. Raises pyarrow.ArrowInvalid."""
    return pj.read_json(
        pa.BufferReader(b"\n".join([*texts, b""])),
        read_options=pj.ReadOptions(use_threads=False, block_size=_RUN_BYTES * 16),
        parse_options=parse,
    )


def read_runs(
    texts: Sequence[bytes],
    indexes: Sequence[int],
    columns_of: ColumnsOf,
    config: DecodeConfig,
    results: list[SpanResult],
) -> list[int]:
    """Append events of the plain objects `indexes` that read as they are (`payload`: index of the text).

    Returns the indexes of the others: spelt otherwise, or with a span that would be refused.
    """
    left: list[int] = []
    for run in runs_of(texts, indexes, _RUN_BYTES):
        left += _read_run(texts, run, columns_of, config, results)
    return left


def _read_run(
    texts: Sequence[bytes],
    run: list[int],
    columns_of: ColumnsOf,
    config: DecodeConfig,
    results: list[SpanResult],
) -> list[int]:
    spans = columns_of(run)
    if spans is None:
        if len(run) <= _FEW or sum(len(texts[i]) for i in run) <= _FEW_BYTES:
            return run
        middle = len(run) // 2
        left = _read_run(texts, run[:middle], columns_of, config, results)
        return left + _read_run(texts, run[middle:], columns_of, config, results)
    result = events_of_spans(spans, config)
    if not len(result.bad):
        results.append(result)
        return []
    bad = set(result.bad.payload.tolist())
    again = [i for i in run if i not in bad]
    return sorted(bad) + _read_run(texts, again, columns_of, config, results)
