"""A profile as a file: what comes back, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.examples import examples
from oracles.made_profiles import Service
from oracles.stored_profile import decode

from analyze.profile import encoding
from analyze.profile.encoding import (
    META_COUNTS,
    META_SLOTS,
    META_VERSION,
    encode,
    stored_of,
    version,
    votes_kept,
)
from analyze.profile.names import Child, Names, OperationName, PathName, SiteKind, SiteName
from analyze.profile.profile import SCHEMAS, Profile, Slot

SMALL = Service(n_roots=2, n_sites=3)
SLOTS = (Slot(0, 0, 300), Slot(1, 300, 600))
TEXT = st.text(max_size=6)


@pytest.fixture(scope="module")
def profile() -> Profile:
    return SMALL.profile(1, SLOTS, 200)


def test_what_is_written_is_read(profile: Profile) -> None:
    data = encode(profile)
    found = decode(data)
    assert found == profile
    assert found is not None
    assert all(table.schema.equals(SCHEMAS[name]) for name, table in found.tables().items())
    assert encode(found) == data


def test_a_profile_of_nothing_is_one() -> None:
    empty = Profile(Names(), (Slot(0, 0, 1),), **{n: s.empty_table() for n, s in SCHEMAS.items()})
    assert decode(encode(empty)) == empty


@given(
    st.lists(st.tuples(TEXT, TEXT, TEXT), min_size=1, max_size=4, unique=True),
    st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.booleans()), max_size=3), max_size=4
    ),
    st.lists(TEXT, max_size=3),
)
@examples(15)
def test_any_name_comes_back(
    operations: list[tuple[str, str, str]], patterns: list[list[tuple[int, int, bool]]], words: list[str]
) -> None:
    n = len(operations)
    names = Names(
        tuple(OperationName(*told) for told in operations),
        tuple(SiteName(number - 1, number, SiteKind.STEP) for number in range(n)),
        tuple(PathName(number - 1, number) for number in range(n)),
        tuple(tuple(Child(a % n, count, awaited) for a, count, awaited in pattern) for pattern in patterns),
        tuple(words),
        tuple(reversed(words)),
    )
    told = Profile(names, SLOTS, **{name: schema.empty_table() for name, schema in SCHEMAS.items()})
    assert decode(encode(told)) == told


@given(st.data())
@examples(40)
def test_a_damaged_file_is_never_misread(profile: Profile, data: st.DataObject) -> None:
    """Hashes tell damage before; without them, what is damaged is refused, or is a profile that is sound."""
    whole = bytearray(encode(profile))
    at = data.draw(st.integers(0, len(whole) - 1))
    how = data.draw(st.sampled_from(["flip", "cut", "empty"]))
    if how == "flip":
        whole[at] ^= 1 << data.draw(st.integers(0, 7))
    found = decode(bytes(whole if how == "flip" else whole[:at] if how == "cut" else b""))
    assert found is None or decode(encode(found)) == found
    assert how == "flip" or found is None


NOTHING: Mapping[str, Any] = MappingProxyType({})


def rewritten(
    profile: Profile,
    moved: Mapping[str, str] = NOTHING,
    data: Mapping[str, bytes | None] = NOTHING,
    **metadata: str,
) -> bytes:
    """The file with other metadata; columns that are `moved` are there under another name."""
    file = pq.ParquetFile(pa.BufferReader(encode(profile)))
    sink = pa.BufferOutputStream()
    schema = pa.schema([("column", pa.string()), ("data", pa.binary())])
    with pq.ParquetWriter(sink, schema) as writer:
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group)
            names = [moved.get(name, name) for name in rows["column"].to_pylist()]
            held = [
                data.get(name, packed)
                for name, packed in zip(rows["column"].to_pylist(), rows["data"].to_pylist(), strict=True)
            ]
            writer.write_table(pa.table([names, held], schema))
        told = {key.decode(): value.decode() for key, value in file.metadata.metadata.items()}
        told.pop("ARROW:schema", None)
        writer.add_key_value_metadata(told | metadata)
    return bytes(sink.getvalue())


def test_what_a_file_says_of_itself_is_verified(profile: Profile) -> None:
    assert decode(rewritten(profile)) == profile
    assert decode(rewritten(profile, **{META_VERSION.decode(): f"{version()}1"})) is None
    assert decode(rewritten(profile, **{META_SLOTS.decode(): "[[0, 1]]"})) is None
    assert decode(rewritten(profile, **{META_SLOTS.decode(): "[[0, 1, 2]]"})) is None  # rows of a second slot
    n = len(profile.names.patterns)
    for n_patterns, is_sound in ((n, True), (n - 1, False)):
        counts = json.dumps({"pattern": n_patterns, "vote": 1})
        assert (decode(rewritten(profile, **{META_COUNTS.decode(): counts})) is not None) == is_sound
    for slots in ("[[0, 1, Infinity]]", "[" * 100_000):
        assert decode(rewritten(profile, **{META_SLOTS.decode(): slots})) is None
    for many in ("Infinity", "1e30", str(10**10)):
        counts = f'{{"pattern": {many}, "vote": {many}}}'
        assert decode(rewritten(profile, **{META_COUNTS.decode(): counts})) is None
    assert votes_kept(rewritten(profile, **{META_COUNTS.decode(): '{"vote": Infinity}'})) == 0
    for name in ("visits.site", "votes.measure", "bins.bin", "point.text"):
        assert decode(rewritten(profile, {name: "elsewhere"})) is None
        assert decode(rewritten(profile, data={name: None})) is None
    for name in ("visits.n", "bins.n", "sites.operation", "point.length"):  # of another length
        assert decode(rewritten(profile, {name: "elsewhere", "origins.site": name})) is None
    n_bins = len(stored_of(profile).votes.bin)
    assert decode(rewritten(profile, data={"bins.bin": encoding._packed(np.full(n_bins, 0.5))})) is None
    assert decode(b"PAR1PAR1") is None
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1]}), sink)
    assert decode(sink.getvalue()) is None


def test_no_column_fills_the_memory(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven bytes say how many numbers there are, and zeros compress to nothing."""
    data, most = encode(profile), 8 * len(stored_of(profile).votes.bin)
    monkeypatch.setattr(encoding, "_MOST", most)
    assert decode(data) == profile
    monkeypatch.setattr(encoding, "_MOST", most // 64)
    assert decode(data) is None


def test_numbers_without_a_name_are_refused(profile: Profile) -> None:
    assert decode(encode(replace(profile, names=replace(profile.names, errors=())))) is None
    assert (
        decode(encode(replace(profile, names=replace(profile.names, sites=profile.names.sites[1:])))) is None
    )
    loose = (profile.names.paths[0], PathName(9, 0), *profile.names.paths[2:])
    assert decode(encode(replace(profile, names=replace(profile.names, paths=loose)))) is None
    place = profile.visits.column_names.index("calls")
    broken = profile.visits.set_column(
        place, SCHEMAS["visits"].field("calls"), pa.array(np.full(profile.visits.num_rows, np.nan))
    )
    assert decode(encode(replace(profile, visits=broken))) is None
