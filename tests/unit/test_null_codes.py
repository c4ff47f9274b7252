"""Codes under nulls point into the dictionary, whichever codec made them.

Arrow 26 unifies dictionaries by `map[code]` for every row. A code of -1 under a null reads what lies before
the map, and what was read is the code of the next time: a process ends there.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from bench.trace_stream import messages
from oracles.null_codes import stray_codes

from ingest.codecs.parquet.plain_columns import with_used_words
from ingest.codecs.values.names import coded_words
from ingest.files import decode_file
from ingest.formats import codec_for
from schemas.config import DecodeConfig
from schemas.events import EVENT_SCHEMA, concat_events

DATA = Path(__file__).resolve().parents[1] / "data"


def strays(events: pa.Table) -> list[str]:
    return [path for name in EVENT_SCHEMA.names for path in stray_codes(events[name], name)]


@pytest.mark.parametrize("heavy", [False, True])
def test_of_otlp(*, heavy: bool) -> None:
    decode = codec_for("otlp-proto").decode
    parts = [
        decode([message], DecodeConfig()).events for message in messages(2_000, heavy=heavy, begin_ns=10**18)
    ]
    assert [strays(part) for part in parts] == [[]] * len(parts)
    assert strays(concat_events(parts)) == []


RECORDINGS = (
    "faults/online-boutique.otlp.jsonl.zst",
    "jaeger/multi.json",
    "otlp/trace.json",
    "xtrace/small.json.gz",
    "zipkin/messaging-kafka.json.gz",
)


@pytest.mark.parametrize("name", RECORDINGS)
def test_of_recordings(name: str) -> None:
    batches = [*decode_file(DATA / name, None, DecodeConfig())]
    assert batches
    for batch in batches:
        assert strays(batch.events) == []


def test_of_native_records() -> None:
    first = b'{"breadcrumb": "a", "ts": 1, "component": "c", "point": "p", "params": {"x": 1, "y": "t"}}'
    second = b'{"breadcrumb": "a", "ts": 2, "component": "d", "point": "p", "label": "L", "host": "h"}'
    assert strays(codec_for("native").decode([first, second], DecodeConfig()).events) == []


def test_of_words_by_code() -> None:
    words = coded_words(pa.array([-1, 1, -7, 0], pa.int32()).to_numpy(), pa.array(["a", "b"]))
    assert words.to_pylist() == [None, "b", None, "a"]
    assert [*stray_codes(words, "words")] == []


def test_of_words_in_use() -> None:
    words = pa.DictionaryArray.from_arrays(
        pa.array([None, 2, 2, 2], pa.int32()), pa.array(["a", "b", "c" * 99])
    )
    kept = with_used_words(words, 0.1)
    assert kept.to_pylist() == words.to_pylist()
    assert pa.types.is_dictionary(kept.type)
    assert [*stray_codes(kept, "words")] == []
