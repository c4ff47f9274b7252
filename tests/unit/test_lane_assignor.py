"""Who gets which lane: everyone's share is as large, little moves, nothing has two owners."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ingest.kafka.lane_assignor import GroupMember, assign_streams, current_owners, owners_of_lanes


def member(
    name: str, owned: set[tuple[str, int]] | None = None, generation: int = 1, *topics: str
) -> GroupMember:
    return GroupMember(name, frozenset(topics or ("a", "b")), frozenset(owned or ()), generation)


def test_a_number_goes_to_one_member_over_topics_of_different_size() -> None:
    partitions = {"a": range(5), "b": range(2)}
    shares = assign_streams([member("x"), member("y")], partitions)
    lanes = [{number for _, number in share} for share in shares]
    assert not lanes[0] & lanes[1]
    assert sorted(stream for share in shares for stream in share) == [
        *(("a", n) for n in range(5)),
        *(("b", n) for n in range(2)),
    ]


def test_what_moves_waits_until_it_is_given_up() -> None:
    everything = {("a", n) for n in range(4)}
    partitions = {"a": range(4)}
    first = assign_streams([member("x", everything), member("y")], partitions)
    assert first == [[("a", 0), ("a", 1)], []]
    second = assign_streams([member("x", {("a", 0), ("a", 1)}, 2), member("y", set(), 2)], partitions)
    assert second == [[("a", 0), ("a", 1)], [("a", 2), ("a", 3)]]


def test_of_two_claims_the_newer_counts() -> None:
    woken = member("x", {("a", 0), ("a", 1)}, 3)
    awake = member("y", {("a", 0), ("a", 1)}, 5)
    assert current_owners([woken, awake]) == {("a", 0): 1, ("a", 1): 1}
    assert assign_streams([woken, awake], {"a": range(2)})[1]


def test_a_topic_that_the_owner_does_not_know_waits() -> None:
    partitions = {"a": range(2), "new": range(2)}
    shares = assign_streams([member("x", None, 1, "a"), member("y", None, 1, "a", "new")], partitions)
    assert sum(("new", n) in share for share in shares for n in range(2)) == 1


def test_no_members_and_no_partitions() -> None:
    assert owners_of_lanes([], {"a": range(3)}) == {}
    assert assign_streams([member("x")], {}) == [[]]
    assert assign_streams([member("x")], {"a": ()}) == [[]]


names = st.lists(st.text("xyz", min_size=1, max_size=3), min_size=1, max_size=6, unique=True)
topics = st.dictionaries(st.sampled_from("ab"), st.integers(0, 9).map(range), max_size=2)


@given(names, topics, st.data())
def test_shares_settle_in_two_rounds(
    names: list[str], partitions: dict[str, range], data: st.DataObject
) -> None:
    streams = [(topic, number) for topic, numbers in partitions.items() for number in numbers]
    owner = data.draw(st.lists(st.integers(-1, len(names) - 1), min_size=len(streams), max_size=len(streams)))
    group = [
        member(name, {s for s, of in zip(streams, owner, strict=True) if of == index})
        for index, name in enumerate(names)
    ]
    lanes = owners_of_lanes(group, partitions)
    first = assign_streams(group, partitions)
    # Nobody gets what another has.
    for index, share in enumerate(first):
        assert all(owner[streams.index(stream)] in (-1, index) for stream in share)
    settled = [member(name, set(share), 2) for name, share in zip(names, first, strict=True)]
    # A member keeps what it was to keep, so the second round gives out the rest and moves nothing.
    second = assign_streams(settled, partitions)
    assert Counter(stream for share in second for stream in share) == Counter(streams)
    again = [member(name, set(share), 3) for name, share in zip(names, second, strict=True)]
    assert assign_streams(again, partitions) == second
    counts = Counter(lanes.values())
    if lanes:
        loads = [counts[index] for index in range(len(names))]
        assert max(loads) - min(loads) <= 1


@given(names, st.integers(1, 9))
def test_who_joins_takes_its_share_only(names: list[str], n: int) -> None:
    partitions = {"a": range(n)}
    settled = assign_streams([member(name) for name in names], partitions)
    group = [member(name, set(share), 2) for name, share in zip(names, settled, strict=True)]
    lanes = owners_of_lanes([*group, member("zzzz")], partitions)
    moved = [number for number, index in lanes.items() if ("a", number) not in [*settled, []][index]]
    assert len(moved) <= -(-n // (len(names) + 1))
