"""A profile as a file: what comes back, what is refused, and the keys of its names."""

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
    WRITTEN,
    encode,
    is_of_other_version,
    rows_kept,
    stored_of,
    stored_tables,
    votes_kept,
)
from analyze.profile.name_rows import KIND_OF, keys_of, name_rows
from analyze.profile.names import Child, Names, OperationName, PathName, SiteKind, SiteName
from analyze.profile.numbering import RunNames
from analyze.profile.profile import SCHEMAS, Profile, Slot
from schemas.statistics import STATISTICS_SCHEMA

SMALL = Service(n_roots=2, n_sites=3)
SLOTS = (Slot(0, 0, 300),)
TEXT = st.text(max_size=6)
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
    assert votes_kept(data) == len(stored_of(profile).votes.bin)


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
    names = Names(
        tuple(OperationName(*told) for told in operations),
        tuple(SiteName(number - 1, number, SiteKind.STEP) for number in range(n)),
        tuple(PathName(number - 1, number) for number in range(n)),
        tuple({tuple(sorted(pattern)): None for pattern in children}),
        tuple(words),
        tuple(reversed(words)),
    )
    told = Profile(names, SLOTS, **{name: schema.empty_table() for name, schema in SCHEMAS.items()})
    assert decode(encode(told)) == told


def written(data: bytes, rows: pa.Table) -> bytes:
    """A file with the metadata of another."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, rows.schema, **WRITTEN) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(
            {
                key.decode(): of.decode()
                for key, of in pq.read_metadata(pa.BufferReader(data)).metadata.items()
            }
        )
    return bytes(sink.getvalue())


def test_other_files_are_refused(profile: Profile) -> None:
    """Their names tell damage before; these could have been made by another program."""
    data = encode(profile)
    whole = pq.read_table(pa.BufferReader(data))
    nullable = pa.schema([pa.field(field.name, field.type) for field in whole.schema])
    others = (
        pa.table({"a": [1]}),
        *(whole.slice(1), pa.concat_tables([whole, whole]), whole.drop_columns("origins")),
        whole.cast(nullable),
    )
    assert decode(written(data, whole)) == profile
    for other in (b"", b"PAR1PAR1", data[: len(data) // 2], *(written(data, rows) for rows in others)):
        assert decode(other) is None
        assert votes_kept(other) == 0
        assert rows_kept(other, "sites") is None
        assert not is_of_other_version(other)


def changed(data: bytes, relation: str, column: str, change: Callable[[Any], Any]) -> bytes:
    """The file with every value of a column of a relation changed."""
    (row,) = pq.read_table(pa.BufferReader(data)).to_pylist()
    for one in row[relation]:
        one[column] = change(one[column])
    return written(data, pa.Table.from_pylist([row], STATISTICS_SCHEMA))


@pytest.mark.parametrize(
    ("relation", "column", "change"),
    [
        ("sites", "operation", lambda key: key + 1),
        ("sites", "caller", lambda _: 7),
        ("sites", "kind", lambda _: "elsewhere"),
        ("paths", "above", lambda _: 7),
        ("patterns", "children", lambda _: [{"operation": 7, "calls": 1, "awaited": True}]),
        ("visits", "site", lambda key: key + 1),
        ("visits", "calls", lambda _: float("nan")),
        ("responses", "bin", lambda _: 3000),
        ("account", "root", lambda key: key + 1),
        ("votes", "measure", lambda _: "elsewhere"),
        ("votes", "site", lambda key: key + 1),
        ("votes", "filled", lambda n: n + 1),
        ("votes", "bins", lambda bins: bins[1:]),
        ("votes", "bins", lambda bins: [-1 for _ in bins]),
        ("votes", "bins", lambda bins: [3000 for _ in bins]),
        ("votes", "bins", lambda bins: [7 for _ in bins]),
        ("votes", "n", lambda n: n[1:]),
        ("votes", "n", lambda n: [-1 for _ in n]),
        ("votes", "w", lambda _: [1.0]),
    ],
)
def test_rows_without_a_meaning_are_refused(
    profile: Profile,
    relation: str,
    column: str,
    change: Callable[[Any], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data, known = changed(encode(profile), relation, column, change), RunNames()
    known.taken_in(name_rows(profile.names))
    for most_by_arrow in (1, 1 << 13):
        monkeypatch.setattr(encoding, "_MOST_BY_ARROW", most_by_arrow)
        assert decode(data) is None
        assert relation in KIND_OF or stored_tables(data, run=known) is None


def test_columns_are_read_from_pages_as_by_arrow(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_MOST_BY_ARROW", 1)
    assert decode(encode(profile)) == profile


def test_a_name_has_one_key_in_every_window(profile: Profile) -> None:
    """Whatever number it has there."""
    keys = keys_of(name_rows(profile.names))
    assert all(len(set(one.tolist())) == len(one) for one in keys.values())
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
    again = keys_of(name_rows(names))
    assert np.array_equal(again.pop("operation")[turned], keys.pop("operation"))
    assert all(np.array_equal(a, b) for a, b in zip(again.values(), keys.values(), strict=True))


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
    assert [one.tolist() for one in keys_of(name_rows(names)).values()] == KEYS


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
