"""Members of a group: how streams move between them, and what is theirs meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from fixtures.kafka_bench import KafkaBench, Reader, numbered
from oracles.waiting import PATIENCE_S

from ingest.kafka.kafka_settings import KafkaSettings
from ingest.kafka.kafka_source import KafkaSource
from ingest.source import StreamId
from schemas.errors import InputError


@pytest.fixture
def join(kafka: KafkaBench) -> Iterator[Callable[[KafkaSettings], Reader]]:
    """Members that are closed when the test is over."""
    readers: list[Reader] = []

    def joined(settings: KafkaSettings) -> Reader:
        readers.append(Reader(KafkaSource(settings)))
        return readers[-1]

    yield joined
    for reader in readers:
        reader.source.close()


def until(readers: list[Reader], is_so: Callable[[], bool]) -> None:
    """All members take turns until something holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, [(reader.mine, reader.source.trouble) for reader in readers]
        for reader in readers:
            reader.step()


def test_lanes_are_shared_by_number_over_topics(
    kafka: KafkaBench, join: Callable[[KafkaSettings], Reader]
) -> None:
    wide, narrow = kafka.topic(partitions=4), kafka.topic(partitions=3)
    settings = kafka.settings(wide, narrow)
    everything = {StreamId(wide, n) for n in range(4)} | {StreamId(narrow, n) for n in range(3)}
    one, two = join(settings), None
    until([one], lambda: one.mine == everything)
    two = join(settings)
    until([one, two], lambda: len({s.lane for s in two.mine}) == 2 and one.mine | two.mine == everything)
    assert not {stream.lane for stream in one.mine} & {stream.lane for stream in two.mine}
    # What stayed was never taken away, and nothing was lost without being asked for.
    assert len(one.gained) == 7
    assert set(one.asked) == two.mine
    assert not one.lost
    assert not two.lost
    # Messages of every stream come to its owner once it has it.
    for topic, n in ((wide, 4), (narrow, 3)):
        for partition in range(n):
            kafka.fill(topic, numbered(0, 50), partition)
    until([one, two], lambda: len(one.values()) + len(two.values()) == 350)
    assert {poll.stream for poll in one.polls} == {stream.name for stream in one.mine}
    # Who leaves gives back at once; the other goes on with everything.
    two.source.close()
    until([one], lambda: one.mine == everything)


def test_streams_move_when_they_are_released(
    kafka: KafkaBench, join: Callable[[KafkaSettings], Reader]
) -> None:
    topic = kafka.topic(partitions=2)
    settings = kafka.settings(topic)
    one = join(settings)
    until([one], lambda: len(one.mine) == 2)
    two = join(settings)
    # One is asked, and says nothing for a while: its commit takes time.
    asked: tuple[StreamId, ...] = ()
    deadline = time.monotonic() + PATIENCE_S
    while not asked:
        assert time.monotonic() < deadline
        one.source.poll(0.1)
        asked = one.source.change().asked
        two.step()
    for _ in range(10):
        assert one.source.poll(0.05) is None
        two.step()
    assert not two.mine
    # Its offsets are still its own to commit.
    assert one.source.commit_offsets(dict.fromkeys(asked, 5))
    one.source.release(asked)
    one.mine -= set(asked)
    until([one, two], lambda: two.mine == set(asked))


def test_streams_not_released_in_time_are_lost(
    kafka: KafkaBench, join: Callable[[KafkaSettings], Reader]
) -> None:
    topic = kafka.topic(partitions=2)
    settings = kafka.settings(topic, release_timeout_ms=1_000)
    one = join(settings)
    until([one], lambda: len(one.mine) == 2)
    two = join(settings)
    asked: set[StreamId] = set()
    lost: set[StreamId] = set()
    deadline = time.monotonic() + PATIENCE_S
    while not two.mine:
        assert time.monotonic() < deadline
        one.source.poll(0.1)
        change = one.source.change()
        asked |= set(change.asked)
        lost |= set(change.lost)
        two.step()
    assert lost == asked == two.mine


def test_who_sleeps_past_its_session_loses_its_streams(
    kafka: KafkaBench, join: Callable[[KafkaSettings], Reader]
) -> None:
    topic = kafka.topic(partitions=2)
    settings = kafka.settings(topic, max_poll_interval_ms=1_500, release_timeout_ms=1_000)
    sleepy, awake = join(settings), join(settings)
    until([sleepy, awake], lambda: len(sleepy.mine) == len(awake.mine) == 1)
    until([awake], lambda: len(awake.mine) == 2)
    theirs = set(sleepy.mine)
    # It hears of it at its next poll, as of something lost: it must not commit any more.
    until([sleepy], lambda: bool(sleepy.lost))
    assert set(sleepy.lost) == theirs
    until([sleepy, awake], lambda: len(sleepy.mine) == len(awake.mine) == 1)


def test_static_member_gets_its_streams_back(
    kafka: KafkaBench, join: Callable[[KafkaSettings], Reader]
) -> None:
    topic = kafka.topic(partitions=4)
    settings = kafka.settings(topic)
    named = [settings.model_copy(update={"static_member_id": name}) for name in ("pod-0", "pod-1")]
    one, two = (join(each) for each in named)
    until([one, two], lambda: len(one.mine) == len(two.mine) == 2)
    before = set(two.mine)
    two.source.close()
    again = join(named[1])
    until([one, again], lambda: again.mine == before)
    assert not one.asked[2:]
    assert len(one.mine) == 2


def test_second_member_of_a_static_name_is_fenced(
    kafka: KafkaBench, join: Callable[[KafkaSettings], Reader]
) -> None:
    topic = kafka.topic()
    settings = kafka.settings(topic, static_member_id="pod-0")
    first = join(settings)
    until([first], lambda: len(first.mine) == 1)
    second = join(settings)
    until([second], lambda: len(second.mine) == 1)
    with pytest.raises(InputError, match="Another process took our place in the group, as 'pod-0'"):
        until([first], lambda: False)
