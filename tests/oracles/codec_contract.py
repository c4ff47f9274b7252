"""What must hold of a codec whatever it is given: the contract of its events, its ledger, sound neighbours.

All of it is checked on columns: a row of Python a row of events would cost more than decoding them.
"""

from __future__ import annotations

import random
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc
from oracles.counted_items import least_items

from ingest.codecs.dead_letters import MAX_KEPT_BYTES
from ingest.codecs.port import Codec, Decoded
from schemas.config import MAX_KEPT, DecodeConfig
from schemas.events import EVENT_SCHEMA, SMALLEST_RATE, concat_events, with_text_ids
from schemas.rejects import Reason, Reject

CONFIG = DecodeConfig(event_points=("mark",))
SOUND_EVERY = 30
"""Inputs from one sound payload to the next."""


@dataclass(frozen=True)
class Sound:
    """A payload that decodes without a complaint, of requests that no other payload has."""

    payload: bytes
    events: pa.Table
    """What it gives alone."""


def sound_payloads(codec: Codec, payload: bytes, rng: random.Random, n: int) -> list[Sound]:
    """`n` times a sound payload, each time with other request ids of the same length."""
    alone = codec.decode([payload], CONFIG)
    assert alone.events.num_rows > 0
    assert not alone.rejects
    requests = sorted(set(alone.events["request_id"].to_pylist()))
    found = []
    for _ in range(n):
        renamed = payload
        for request in requests:
            renamed = _with_other_id(renamed, request, rng)
        decoded = codec.decode([renamed], CONFIG)
        assert not decoded.rejects
        assert decoded.events.num_rows == alone.events.num_rows
        assert not set(decoded.events["request_id"].to_pylist()).intersection(requests)
        found.append(Sound(renamed, decoded.events))
    return found


def _with_other_id(payload: bytes, request: str, rng: random.Random) -> bytes:
    """The payload with a random request id, wherever it is written: as text, hexadecimal in either case, raw
    or as JSON text of protobuf's bytes."""
    other = rng.randbytes(len(request) // 2 + 1).hex()[: len(request)]
    payload = re.sub(re.escape(request.encode()), other.encode(), payload, flags=re.IGNORECASE)
    try:
        raw, other_raw = bytes.fromhex(request), bytes.fromhex(other)
    except ValueError:
        return payload
    payload = payload.replace(raw, other_raw)
    return payload.replace(b64encode(raw), b64encode(other_raw))


def check_contract(events: pa.Table) -> None:
    """Schema, and what the kernel relies on."""
    assert events.schema.equals(EVENT_SCHEMA)
    events.validate(full=True)
    for field in EVENT_SCHEMA:
        if not field.nullable:
            assert events[field.name].null_count == 0, field.name
    for name in ("component", "point", "label", "host", "peer", "status"):
        for chunk in events[name].chunks:
            assert len(chunk.dictionary) == len(chunk.dictionary.unique()), name
    rate = events["sample_rate"].drop_null()
    assert pc.all(pc.and_(pc.greater_equal(rate, SMALLEST_RATE), pc.less_equal(rate, 1))).as_py() is not False
    for chunk in events["params"].cast(_PLAIN_PARAMS).chunks:
        _check_params(chunk)
    shown = with_text_ids(events)
    for column in ("request_id", "id"):
        assert not pc.any(pc.match_substring(shown[column], "\0")).as_py()


def _check_params(column: pa.Array) -> None:
    """Each has one finite number or a text; the keys of a row ascend, so that none is there twice."""
    params = column.flatten()
    if not len(params):
        return
    num, text = pc.struct_field(params, "num"), pc.struct_field(params, "text")
    assert pc.all(pc.xor(pc.is_valid(num), pc.is_valid(text))).as_py()
    assert pc.all(pc.is_finite(num.drop_null())).as_py() is not False
    keys, rows = pc.struct_field(params, "key"), pc.list_parent_indices(column).to_numpy()
    assert keys.null_count == 0
    # Arrow compares bytes of UTF-8, Python code points: the order is the same.
    ascends = pc.less(keys[:-1], keys[1:]).to_numpy(zero_copy_only=False)
    assert (ascends | (rows[:-1] != rows[1:])).all()


def check_batch(format_: str, codec: Codec, sound: Sequence[Sound], batch: Sequence[bytes]) -> int:
    """Decode inputs with sound payloads between them, and once more without those, in three parts: two of
    those of which something is refused, and the others, which nothing malformed stands beside.

    Sound payloads give what they give alone; all others give the same events, dead letters and counts both
    times, in their order; every item is an event or a dead letter with a reason. The number of dead letters.
    """
    apart = _parted(codec, batch)
    batch = [payload for part in apart for payload in part]
    mixed, inputs, used = _mixed(batch, sound)
    whole = codec.decode(mixed, CONFIG)
    check_contract(whole.events)
    requests = [request for one in used for request in one.events["request_id"].unique().to_pylist()]
    is_sound = pc.is_in(whole.events["request_id"], pa.array(requests, pa.string()))
    assert_same(whole.events.filter(is_sound), [one.events for one in used])

    parts = [codec.decode(part, CONFIG) for part in apart]
    assert_same(whole.events.filter(pc.invert(is_sound)), [part.events for part in parts])
    _check_rejects(
        whole, parts, inputs, list(accumulate(map(len, apart[:-1]), initial=0)), is_table=format_ == "parquet"
    )

    n_refused = sum(whole.refused.values())
    n_items = sum(part.events.num_rows for part in parts) + n_refused
    least = sum(least_items(format_, payload) for payload in batch)
    missing = least - n_items
    assert missing <= 0, f"{missing} items are neither events nor refused"
    return n_refused


def _parted(codec: Codec, batch: Sequence[bytes]) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Half of the inputs of which something is refused, the other half, and those of which nothing is."""
    refused = {reject.payload for reject in codec.decode(batch, CONFIG).rejects}
    others = [payload for index, payload in enumerate(batch) if index in refused]
    middle = len(others) // 2
    clean = [payload for index, payload in enumerate(batch) if index not in refused]
    return others[:middle], others[middle:], clean


def _mixed(batch: Sequence[bytes], sound: Sequence[Sound]) -> tuple[list[bytes], dict[int, int], list[Sound]]:
    """The inputs with a sound payload before each SOUND_EVERY of them; the index of each input that is at an
    index of the list; the sound ones, in their order.
    """
    mixed: list[bytes] = []
    inputs: dict[int, int] = {}
    used: list[Sound] = []
    for index, payload in enumerate(batch):
        if index % SOUND_EVERY == SOUND_EVERY // 2 and len(used) < len(sound):
            used.append(sound[len(used)])
            mixed.append(used[-1].payload)
        inputs[len(mixed)] = index
        mixed.append(payload)
    return mixed, inputs, used


def _check_rejects(
    whole: Decoded, parts: list[Decoded], inputs: dict[int, int], begins: list[int], *, is_table: bool
) -> None:
    """`begins`: index of the first input of each part. Rows of a table that is refused whole count each, with
    one dead letter."""
    assert sum((Counter(part.refused) for part in parts), Counter()) == Counter(whole.refused)
    assert {*whole.refused} <= {*Reason}
    for decoded in (whole, *parts):
        n_refused = sum(decoded.refused.values())
        assert len(decoded.rejects) == min(n_refused, MAX_KEPT) or (
            is_table and 0 < len(decoded.rejects) < n_refused
        )
    if sum(whole.refused.values()) > MAX_KEPT:
        return  # those kept of the parts are others
    found = [replace(reject, payload=inputs.get(reject.payload, -1)) for reject in whole.rejects]
    expected = [
        replace(reject, payload=reject.payload + begin)
        for part, begin in zip(parts, begins, strict=True)
        for reject in part.rejects
    ]
    if sum(len(reject.raw or b"") for reject in expected) > MAX_KEPT_BYTES // 2:
        found, expected = _without_bytes(found), _without_bytes(expected)
    assert found == expected


def _without_bytes(rejects: list[Reject]) -> list[Reject]:
    """Near the bound of what is kept, which have their bytes depends on what came before."""
    return [replace(reject, raw=None) for reject in rejects]


def assert_same(found: pa.Table, expected: Sequence[pa.Table]) -> None:
    """The same rows in the same order, whatever their dictionaries."""
    others = plain_events(concat_events([*expected]))
    if not plain_events(found).equals(others):
        assert found.to_pylist() == others.to_pylist()
        raise AssertionError("equal as rows, not as columns")


def plain_events(events: pa.Table) -> pa.Table:
    """Words spelt out, in one chunk."""
    columns = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in events.columns
    ]
    place = events.column_names.index("params")
    columns[place] = columns[place].cast(_PLAIN_PARAMS)
    return pa.table(columns, names=events.column_names).combine_chunks()


_PLAIN_PARAMS = pa.list_(pa.struct([("key", pa.string()), ("num", pa.float64()), ("text", pa.string())]))
