"""A profile as a file: what comes back, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
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
    META_VERSION,
    META_WATCHED,
    WRITTEN,
    encode,
    stored_of,
    stored_tables,
    version,
    votes_kept,
)
from analyze.profile.name_columns import name_columns, name_keys
from analyze.profile.names import Child, Names, OperationName, PathName, SiteKind, SiteName
from analyze.profile.numbering import RunNames
from analyze.profile.profile import SCHEMAS, Profile, Slot

SMALL = Service(n_roots=2, n_sites=3)
SLOTS = (Slot(0, 0, 300),)
TEXT = st.text(max_size=6)
SUMS = ("visits", "responses", "account", "votes")
KEYS = [
    [2979117423879725076, -3610247536669124170],
    [-8627171206480374711, -1816363624629211937],
    [-2152535657050944081, 4581115128385063780],
    [-6916284907944942115, -6399551785804273516],
    [-3823643880890180021],
    [2009453529290100607],
]


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
    st.lists(TEXT, max_size=3, unique=True),
)
@examples(15)
def test_any_name_comes_back(
    operations: list[tuple[str, str, str]], patterns: list[list[tuple[int, int, bool]]], words: list[str]
) -> None:
    n = len(operations)
    children = (tuple(Child(a % n, count, awaited) for a, count, awaited in pattern) for pattern in patterns)
    distinct = {tuple(sorted(pattern)): pattern for pattern in children}
    names = Names(
        tuple(OperationName(*told) for told in operations),
        tuple(SiteName(number - 1, number, SiteKind.STEP) for number in range(n)),
        tuple(PathName(number - 1, number) for number in range(n)),
        tuple(distinct.values()),
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


def rewritten(
    profile: Profile, change: Callable[[dict[str, Any]], None] = lambda _: None, **metadata: str
) -> bytes:
    """The file with its row changed, or with other metadata."""
    file = pq.ParquetFile(pa.BufferReader(encode(profile)))
    (row,) = file.read().to_pylist()
    change(row)
    sink = pa.BufferOutputStream()
    nullable = loosened(file.schema_arrow)
    with pq.ParquetWriter(sink, nullable, **WRITTEN) as writer:
        writer.write_table(pa.Table.from_pylist([row], nullable))
        writer.add_key_value_metadata(
            {key.decode(): value.decode() for key, value in file.metadata.metadata.items()} | metadata
        )
    return bytes(sink.getvalue())


def loosened(schema: pa.Schema) -> pa.Schema:
    """The schema with nulls allowed everywhere, and four bytes for numbers of two."""

    def of(type_: pa.DataType) -> pa.DataType:
        if pa.types.is_int16(type_):
            return pa.int32()
        if pa.types.is_list(type_):
            return pa.list_(pa.field("element", of(type_.value_type)))
        return (
            pa.struct([pa.field(f.name, of(f.type)) for f in type_]) if pa.types.is_struct(type_) else type_
        )

    return pa.schema([pa.field(field.name, of(field.type)) for field in schema])


def changed(relation: str, column: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    """Changes every value of a column of a relation."""

    def of(row: dict[str, Any]) -> None:
        for one in row[relation]:
            one[column] = change(one[column])

    return of


def test_the_footer_of_a_file_is_verified(profile: Profile) -> None:
    assert decode(rewritten(profile)) == profile
    assert decode(rewritten(profile, **{META_VERSION.decode(): f"{version()}1"})) is None
    for watched in ("[0, 1, Infinity]", "[0]", "[" * 100_000):
        assert decode(rewritten(profile, **{META_WATCHED.decode(): watched})) is None
    assert votes_kept(rewritten(profile, **{META_COUNTS.decode(): '{"vote": Infinity}'})) == 0
    assert votes_kept(encode(profile)) == len(stored_of(profile).votes.bin)
    assert decode(b"PAR1PAR1") is None
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1]}), sink)
    assert decode(sink.getvalue()) is None
    whole = pq.read_table(pa.BufferReader(encode(profile)))
    for rows in (whole.slice(1), pa.concat_tables([whole, whole]), whole.drop_columns("origins")):
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, rows.schema, store_schema=False) as writer:
            writer.write_table(rows)
            writer.add_key_value_metadata(pq.read_metadata(pa.BufferReader(encode(profile))).metadata)
        assert decode(sink.getvalue()) is None


def test_no_column_fills_the_memory(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    data, most = encode(profile), len(stored_of(profile).votes.bin)
    monkeypatch.setattr(encoding, "_MOST_NUMBERS", most)
    assert decode(data) == profile
    monkeypatch.setattr(encoding, "_MOST_NUMBERS", most // 2)
    assert decode(data) is None


@pytest.mark.parametrize(
    ("relation", "column", "change"),
    [
        ("sites", "operation", lambda key: key + 1),
        ("sites", "caller", lambda _: 7),
        ("sites", "kind", lambda _: "elsewhere"),
        ("sites", "site", lambda _: 1),
        ("operations", "component", lambda _: None),
        ("paths", "above", lambda _: 7),
        ("patterns", "children", lambda _: None),
        ("patterns", "children", lambda _: [{"operation": 7, "calls": 1, "awaited": True}]),
        ("roots", "name", lambda _: None),
        ("visits", "site", lambda key: key + 1),
        ("visits", "n", lambda _: None),
        ("visits", "calls", lambda _: float("nan")),
        ("responses", "bin", lambda _: 3000),
        ("account", "root", lambda key: key + 1),
        ("votes", "measure", lambda _: "elsewhere"),
        ("votes", "bins", lambda bins: bins[1:]),
        ("votes", "bins", lambda bins: [-1 for _ in bins]),
        ("votes", "bins", lambda bins: [3000 for _ in bins]),
        ("votes", "bins", lambda bins: [one + 65536 for one in bins]),
        ("votes", "bins", lambda _: None),
        ("votes", "n", lambda _: None),
        ("votes", "n", lambda n: [-1 for _ in n]),
        ("votes", "w", lambda _: [1.0]),
        ("votes", "pattern", lambda _: None),
    ],
)
def test_rows_of_a_file_are_verified(
    profile: Profile,
    relation: str,
    column: str,
    change: Callable[[Any], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data, known = rewritten(profile, changed(relation, column, change)), RunNames()
    known.taken_in(name_columns(profile.names))
    for most_by_arrow in (1, 1 << 13):
        monkeypatch.setattr(encoding, "_MOST_BY_ARROW", most_by_arrow)
        assert decode(data) is None
        assert relation not in SUMS or stored_tables(data, run=known) is None


def test_columns_are_read_from_pages_as_by_arrow(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_MOST_BY_ARROW", 1)
    assert decode(encode(profile)) == profile


def test_a_name_has_one_key_in_every_window(profile: Profile) -> None:
    """Whatever number it has there."""
    columns = name_columns(profile.names)
    keys = name_keys(columns)
    assert all(len(set(one.tolist())) == len(one) for one in keys)
    n = len(profile.names.operations)
    turned = np.arange(n)[::-1]
    names = replace(
        profile.names,
        operations=profile.names.operations[::-1],
        sites=tuple(
            site._replace(
                caller=n - 1 - site.caller if site.caller >= 0 else site.caller,
                operation=n - 1 - site.operation,
            )
            for site in profile.names.sites
        ),
        patterns=tuple(
            tuple(child._replace(operation=n - 1 - child.operation) for child in reversed(pattern))
            for pattern in profile.names.patterns
        ),
    )
    again = name_keys(name_columns(names))
    assert np.array_equal(again.operation[turned], keys.operation)
    assert all(np.array_equal(a, b) for a, b in zip(again[1:], keys[1:], strict=True))


def test_the_key_of_a_name_never_changes() -> None:
    """Statistics of years are added up by it."""
    names = Names(
        (OperationName("shop", "GET /", ""), OperationName("cart", "add", "db")),
        (SiteName(-1, 0, SiteKind.CALL), SiteName(0, 1, SiteKind.STEP)),
        (PathName(-1, 0), PathName(0, 1)),
        ((), (Child(0, 2, True), Child(1, 1, False))),
        ("shop/GET /",),
        ("timeout",),
    )
    assert [one.tolist() for one in name_keys(name_columns(names))] == KEYS


def test_numbers_without_a_name_are_not_written(profile: Profile) -> None:
    names = profile.names
    loose = (names.paths[0], PathName(9, 0), *names.paths[2:])
    for broken in (
        replace(names, errors=()),
        replace(names, sites=names.sites[1:]),
        replace(names, paths=loose),
    ):
        with pytest.raises(IndexError):
            encode(replace(profile, names=broken))
