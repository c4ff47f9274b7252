"""Windows that are added up as they are read are what all of them together are."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.examples import examples
from oracles.made_profiles import Service
from oracles.stored_profile import decode

from analyze.profile import gathering as adding_up
from analyze.profile.encoding import encode, stored_of, stored_tables
from analyze.profile.gathering import Adding, Gathering
from analyze.profile.name_rows import name_rows
from analyze.profile.names import Child, Names, OperationName
from analyze.profile.numbering import RunNames
from analyze.profile.profile import SCHEMAS, TABLES, Profile, Slot, joined, summed
from analyze.profile.segment_sums import NO_SEGMENTS

SHAPES = ((0, 1), (0, 2), (1, 1), (2, 3))
KEYS = ("site", "path", "pattern", "root", "error")


def window(seed: int, at: int, kind: tuple[int, int], *, weighted: bool) -> Profile:
    """A profile of a few sites, some of them of each service; its names come in an order of its own."""
    profile = Service(n_roots=1 + kind[0], n_sites=3 + kind[1]).profile(
        seed, (Slot(0, at * 10**9, (at + 60) * 10**9),), 40
    )
    if weighted:
        tables = {}
        for name, table in profile.tables().items():
            if "w2" in table.column_names:
                place = table.column_names.index("w2")
                table = table.set_column(
                    place, table.schema.field("w2"), pa.array(2.0 * table["n"].to_numpy())
                )
            tables[name] = table
        profile = Profile(profile.names, profile.slots, **tables)
    return profile


def by_name(profile: Profile, name: str) -> dict[tuple[object, ...], tuple[float, ...]]:
    """Rows of a table by the words their numbers stand for."""
    names = profile.names

    def path(at: int) -> tuple[object, ...]:
        one = names.paths[at]
        return (*(path(one.above) if one.above >= 0 else ()), site(one.site))

    def site(at: int) -> object:
        one = names.sites[at]
        return names.caller(at), names.operation(at), one.kind

    def pattern(at: int) -> object:
        return sorted((names.operations[c.operation], c.calls, c.awaited) for c in names.patterns[at])

    words = {
        "site": site,
        "path": path,
        "pattern": lambda at: str(pattern(at)),
        "root": names.roots.__getitem__,
    }
    words["error"] = names.errors.__getitem__
    keys, values = TABLES[name]
    columns = [[words.get(key, int)(at) for at in profile.tables()[name][key].to_pylist()] for key in keys]
    sums = [profile.tables()[name][value].to_pylist() for value in values]
    return dict(zip(zip(*columns, strict=True), zip(*sums, strict=True), strict=True))


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(SHAPES), st.booleans()), min_size=1, max_size=6),
    st.data(),
)
@examples(25)
def test_windows_added_up_are_their_sum(
    told: list[tuple[int, tuple[int, int], bool]], data: st.DataObject
) -> None:
    windows = [window(seed, 60 * at, kind, weighted=w) for at, (seed, kind, w) in enumerate(told)]
    of_block = sorted(data.draw(st.lists(st.integers(0, 2), min_size=len(told), max_size=len(told))))
    gathering = Gathering(RunNames())
    kept = [stored_tables(encode(profile)) for profile in windows]
    for block in np.unique(of_block).tolist():
        adding = Adding()
        for one, of in zip(kept, of_block, strict=True):
            if of == block:
                assert one is not None
                adding.add(one)
        gathering.add(pickle.loads(pickle.dumps(adding.added(lambda: gathering.scratch.folder))), 0)
    found = gathering.gathered().profile()
    slots = np.unique(of_block, return_inverse=True)[1]
    whole = joined(windows)
    plain = {
        name: summed(
            name,
            [
                table.set_column(
                    table.column_names.index("slot"),
                    SCHEMAS[name].field("slot"),
                    pa.array(slots[table["slot"].to_numpy()].astype(np.int32)),
                )
            ],
        )
        for name, table in whole.tables().items()
    }
    oracle = replace(whole, **plain)
    assert [slot.seconds for slot in found.slots] == [60.0 * n for n in np.bincount(slots)]
    for name in SCHEMAS:
        mine, theirs = by_name(found, name), by_name(oracle, name)
        there = {key: sums for key, sums in theirs.items() if name != "votes" or sums[0]}
        assert {key: pytest.approx(sums, rel=1e-9) for key, sums in there.items()} == {
            key: mine[key] for key in there
        }
        assert len(mine) == len(there) or name == "votes"


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(SHAPES)), min_size=1, max_size=6))
@examples(25)
def test_a_run_that_knows_the_names_numbers_a_file_as_if_it_took_them_in(
    told: list[tuple[int, tuple[int, int]]],
) -> None:
    run = RunNames()
    for seed, kind in told:
        data = encode(window(seed, 0, kind, weighted=seed > 5))
        plain = stored_tables(data)
        assert plain is not None
        expected = plain.renumbered(run.taken_in(plain.names))
        found = stored_tables(data, run=run)
        assert found is not None
        assert not found.names
        for name, columns in expected.tables.items():
            for column, values in columns.items():
                assert found.tables[name][column].tolist() == values.tolist()
        mine, theirs = found.votes, expected.votes
        for one, other in zip(
            (*mine.keys, mine.bin, *mine.sums), (*theirs.keys, theirs.bin, *theirs.sums), strict=True
        ):
            assert one.tolist() == other.tolist()


@pytest.mark.parametrize("most", [0, 3 * adding_up.A_WINDOW, adding_up.MOST_APART])
def test_no_window_loses_its_attribute_values(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the last one makes them too many to hold."""
    monkeypatch.setattr(adding_up, "MOST_APART", most)
    schema = NO_SEGMENTS.segments.schema
    for n in range(1, 9):
        adding = Adding()
        for at in range(n):
            row = dict.fromkeys(schema.names, 1) | {"value": at}
            segments = NO_SEGMENTS._replace(segments=pa.Table.from_pylist([row], schema=schema))
            adding.add(stored_of(window(0, 60 * at, (0, 1), weighted=False), segments))
        found = adding.stored()
        assert found is not None
        assert found.segments.segments["value"].to_pylist() == list(range(n))


def test_a_file_with_a_new_name_is_not_held_with_all_its_words() -> None:
    """A year of files may each have a pattern that no other has, beside names that all have."""
    run, operations = RunNames(), tuple(OperationName(f"component {at}", "point") for at in range(1000))
    held = [pa.total_allocated_bytes()]
    for n_calls in range(1, 20):
        names = Names(operations=operations, patterns=((Child(0, n_calls, awaited=True),),))
        run.taken_in(name_rows(names))
        held.append(pa.total_allocated_bytes())
    assert held[-1] - held[1] < held[1] - held[0]
    assert run.names() == Names(
        operations, patterns=tuple((Child(0, n, awaited=True),) for n in range(1, 20))
    )


def test_a_large_sum_is_not_added_up_again_for_each_window(monkeypatch: pytest.MonkeyPatch) -> None:
    large, small = (stored_of(window(0, 60 * at, (0, n), weighted=False)) for at, n in enumerate((40, 1)))
    monkeypatch.setattr(adding_up, "A_WINDOW", 0)
    monkeypatch.setattr(adding_up, "MOST_APART", 2 * len(large.votes.bin))
    assert len(small.votes.bin) * 10 < len(large.votes.bin)
    adding, sums = Adding(), []
    summed = Adding._add_up
    monkeypatch.setattr(Adding, "_add_up", lambda *given: (sums.append(1), summed(*given)))
    for one in (large, *[small] * 5):
        adding.add(one)
    assert len(sums) <= 1


def test_values_of_a_reference_are_held_by_block() -> None:
    windows = [window(seed, 60 * seed, SHAPES[seed % 4], weighted=seed == 3) for seed in range(7)]

    def gathered(n_blocks: int | None) -> Profile:
        gathering = Gathering(RunNames())
        for at, profile in enumerate(windows):
            adding = Adding()
            adding.add(stored_of(profile))
            added = adding.added(lambda: gathering.scratch.folder)
            assert added is not None
            gathering.add(added, int(at >= 5))
        return gathering.gathered(n_blocks).profile()

    plain, held = gathered(None), gathered(2)
    assert held.slots == plain.slots
    slot = np.array([0, 0, 0, 3, 3, 5, 6], dtype=np.int32)[plain.votes["slot"].to_numpy()]
    place, field = plain.votes.column_names.index("slot"), SCHEMAS["votes"].field("slot")
    together = summed("votes", [plain.votes.set_column(place, field, pa.array(slot))])
    assert by_name(held, "votes") == by_name(replace(plain, votes=together), "votes")
    assert by_name(held, "visits") == by_name(plain, "visits")


def test_names_are_numbered_once() -> None:
    """As one name book would, whatever order each file has."""
    run = RunNames()
    profiles = [window(1, 0, kind, weighted=False) for kind in SHAPES]
    for profile in profiles:
        run.taken_in(stored_of(profile).names)
        again = run.taken_in(stored_of(profile).names)
        assert len(set(again["site"].tolist())) == len(profile.names.sites)
    assert decode(encode(profiles[0])) == profiles[0]
    assert run.names() == joined(profiles).names
