"""Parameters as dictionary codes: what is cut from a batch keeps no words of the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from oracles.codec_contract import plain_events
from oracles.strategies import Row, table_of

from schemas.errors import LakeError
from schemas.events import EVENT_SCHEMA, PARAM_TYPE, concat_events, with_text_ids
from stitch.columnar.runs import own_words
from stitch.drivers.partition import payload_bytes
from stitch.lake.encoding import decode, encode
from stitch.lake.event_log import LogRows, coded_ids, encode_segment, read_segment
from stitch.lake.place import open_store
from stitch.lake.store import Store


def span(number: int, params: dict[str, str | float] | None) -> Row:
    pairs = sorted((params or {}).items())
    return {
        "request_id": "r",
        "id": f"{number:016x}",
        "kind": 17,
        "component": "c",
        "point": "p",
        "ts_ns": number,
        "end_ns": number + 1,
        "params": None
        if params is None
        else [
            {
                "key": key,
                "num": None if isinstance(value, str) else value,
                "text": value if isinstance(value, str) else None,
            }
            for key, value in pairs
        ],
    }


def distinct(n: int) -> pa.Table:
    """Events whose parameters share one dictionary of `n` long texts."""
    rows = [span(i, {"k": f"{i:04d}" * 100, "n": 1.5} if i % 5 else None) for i in range(n)]
    return concat_events([table_of(rows[: n // 2]), table_of(rows[n // 2 :])])


def words_of(events: pa.Table) -> pa.Array:
    return events["params"].chunk(0).values.field("text").dictionary


def test_few_rows_of_a_batch_have_few_words() -> None:
    events = distinct(200)
    few = events.take(pa.array([3, 5, 7, 151]))
    assert len(words_of(few.combine_chunks())) == 160
    own = own_words(few.combine_chunks())
    assert len(words_of(own)) == 3
    assert own.schema.equals(EVENT_SCHEMA)
    assert own.to_pylist() == few.to_pylist()
    assert own_words(events.slice(10, 3)).to_pylist() == events.slice(10, 3).to_pylist()
    assert (
        own_words(few.slice(0, 0)).nbytes < 400
    )  # what is empty weighs nothing, so that buffers count down to 0


def test_words_that_are_all_used_are_not_copied() -> None:
    events = distinct(50)
    column = own_words(events)["params"].chunk(0)
    assert column.values.field("text").indices.buffers()[1].address == (
        events["params"].chunk(0).values.field("text").indices.buffers()[1].address
    )


def test_a_word_counts_in_each_row_that_has_it() -> None:
    once, often = table_of([span(1, {"k": "x" * 90})]), table_of([span(i, {"k": "x" * 90}) for i in range(9)])
    assert payload_bytes(often) == 9 * payload_bytes(once)
    assert payload_bytes(once) > payload_bytes(table_of([span(1, {"k": "x"})])) + 80


def test_a_late_file_does_not_show_dictionaries() -> None:
    events = with_text_ids(distinct(40))
    there_and_back = pa.concat_tables([events.slice(30), events.slice(0, 30)])
    there_and_back = there_and_back.take(pa.array([*range(10, 40), *range(10)]))
    data = encode("late", events, None)
    assert encode("late", there_and_back, None).equals(data)
    assert decode("late", data).equals(events)


def test_a_segment_of_plain_text_is_read(tmp_path: Path) -> None:
    events = distinct(40)
    plain = pa.list_(
        pa.struct([(f.name, pa.float64() if f.name == "num" else pa.string()) for f in PARAM_TYPE])
    )
    place = EVENT_SCHEMA.get_field_index("params")
    before = events.cast(EVENT_SCHEMA.set(place, EVENT_SCHEMA.field(place).with_type(plain)))
    store = open_store(str(tmp_path))
    assert plain_events(written(store, before)).equals(plain_events(events))
    assert written(store, events).schema.equals(EVENT_SCHEMA)
    other = events.set_column(place, pa.field("params", pa.int64()), pa.array(range(40)))
    with pytest.raises(LakeError, match="another version"):
        written(store, other)


def written(store: Store, events: pa.Table) -> pa.Table:
    name = f"segment-{id(events)}.arrow"
    data, segment = encode_segment(
        name, LogRows(coded_ids(events), np.zeros(events.num_rows, np.uint64), None)
    )
    store.put(name, data)
    return read_segment(store, segment)
