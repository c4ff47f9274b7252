"""The source against a real broker: what is assigned, where it begins, what every fault looks like."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import NoReturn

import pytest
from fixtures.kafka_bench import KafkaBench, Reader, numbered
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError
from oracles.waiting import wait_until

from ingest.kafka import kafka_source
from ingest.kafka.kafka_source import KafkaSource
from ingest.kafka.log_range import FRESH_S
from ingest.source import CutBackError, GapError, Payloads, Place, StreamError, StreamId, TopicChangedError
from schemas.errors import InputError
from schemas.rejects import Reason


@pytest.fixture
def opened() -> Iterator[list[KafkaSource]]:
    """Sources that are closed when the test is over."""
    sources: list[KafkaSource] = []
    yield sources
    for source in sources:
        source.close()


def reader(kafka: KafkaBench, opened: list[KafkaSource], *topics: str, **fields: object) -> Reader:
    opened.append(KafkaSource(kafka.settings(*topics, **fields)))
    return Reader(opened[-1])


def covers_without_gap(polls: list[Payloads], stream: StreamId, first: int, until: int) -> bool:
    """Whether the polls of a stream cover its positions."""
    position = first
    for poll in polls:
        if poll.stream == stream.name:
            assert all(position <= at < poll.until for at in poll.positions)
            assert poll.until > position
            position = poll.until
    return position == until


def test_reads_what_was_written(kafka: KafkaBench, opened: list[KafkaSource]) -> None:
    topic = kafka.topic(partitions=2)
    for partition in (0, 1):
        kafka.fill(topic, numbered(0, 2000), partition)
    read = reader(kafka, opened, topic, formats=[{"topics": "t-.*", "format": "jaeger-proto"}])
    assert sorted(read.read(4000)) == sorted([*numbered(0, 2000), *numbered(0, 2000)])
    assert set(read.gained) == {StreamId(topic, 0), StreamId(topic, 1)}
    for stream in read.gained:
        assert read.offsets(stream) == list(range(2000))
        assert covers_without_gap(read.polls, stream, 0, 2000)
    assert all(poll.latest_ns is not None for poll in read.polls if poll.payloads)
    assert {poll.format for poll in read.polls if poll.payloads} == {"jaeger-proto"}
    assert read.source.ends() == {StreamId(topic, 0): 2000, StreamId(topic, 1): 2000}
    assert read.source.trouble is None
    assert read.source.cluster_id == kafka.admin.describe_cluster()["cluster_id"]
    assert read.source.topic_id(topic) == str(kafka.admin.describe_topics([topic])[0]["topic_id"])
    assert read.source.commit_offsets(dict.fromkeys(read.gained, 7))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression(kafka: KafkaBench, opened: list[KafkaSource], codec: str) -> None:
    topic = kafka.topic()
    kafka.fill(topic, numbered(0, 500), compression_type=codec)
    assert reader(kafka, opened, topic).read(500) == numbered(0, 500)


def test_goes_on_at_a_position(kafka: KafkaBench, opened: list[KafkaSource]) -> None:
    topic = kafka.topic()
    kafka.fill(topic, numbered(0, 300))
    read = reader(kafka, opened, topic)
    read.place = lambda _: Place(123)
    # In the middle of a batch: the fetch brings all of it.
    assert read.read(177) == numbered(123, 300)
    assert read.offsets(StreamId(topic, 0))[0] == 123


def test_start_at_latest(kafka: KafkaBench, opened: list[KafkaSource]) -> None:
    topic = kafka.topic()
    kafka.fill(topic, numbered(0, 10))
    read = reader(kafka, opened, topic, start_at="latest")
    read.read_until(lambda: bool(read.gained))
    kafka.fill(topic, numbered(10, 20))
    assert read.read(10) == numbered(10, 20)


def test_paused_streams_give_nothing(kafka: KafkaBench, opened: list[KafkaSource]) -> None:
    topic = kafka.topic(partitions=2)
    for partition in (0, 1):
        kafka.fill(topic, numbered(0, 100), partition, batch=20)
    read = reader(kafka, opened, topic)
    still, moving = StreamId(topic, 0), StreamId(topic, 1)
    read.read_until(lambda: len(read.gained) == 2)
    before = len(read.values(still))
    read.source.pause([still])
    kafka.fill(topic, numbered(100, 200), 1)
    read.read_until(lambda: len(read.values(moving)) == 200)
    assert len(read.values(still)) == before
    kafka.fill(topic, numbered(100, 120), 0)
    read.read_until(lambda: read.source.ends().get(still) == 120)  # though nothing is fetched
    read.source.resume([still])
    read.read_until(lambda: len(read.values(still)) == 120)
    assert read.offsets(still) == list(range(120))


def test_an_end_that_nobody_confirms_is_not_known(kafka: KafkaBench, opened: list[KafkaSource]) -> None:
    topic = kafka.topic()
    kafka.fill(topic, numbered(0, 10))
    read = reader(kafka, opened, topic)
    read.read_until(lambda: len(read.values()) == 10)
    assert read.source.ends() == {StreamId(topic, 0): 10}
    seen = read.source._ends._seen[StreamId(topic, 0)]
    seen.as_of_s -= FRESH_S
    assert read.source.ends() == {}
    read.read_until(lambda: bool(read.source.ends()))
    assert read.source.ends() == {StreamId(topic, 0): 10}


def test_pattern_takes_topics_and_partitions_made_later(kafka: KafkaBench, opened: list[KafkaSource]) -> None:
    first = kafka.topic()
    opened.append(KafkaSource(kafka.settings(topic_pattern=f"{first}(-later)?")))
    read = Reader(opened[-1])
    read.read_until(lambda: len(read.gained) == 1)
    later = kafka.topic(name=f"{first}-later")
    kafka.topic(name=f"{first}-later-not")
    kafka.fill(later, numbered(0, 5))
    assert read.read(5) == numbered(0, 5)
    kafka.add_partitions(later, 3)
    read.read_until(lambda: len(read.gained) == 4)
    assert set(read.gained) == {StreamId(first, 0), *(StreamId(later, n) for n in range(3))}
    assert not read.lost


def test_missing_topic_is_said(kafka: KafkaBench, opened: list[KafkaSource]) -> None:
    read = reader(kafka, opened, "t-nowhere")
    read.read_until(lambda: read.source.trouble is not None)
    assert read.source.trouble == (
        "Topic 't-nowhere' does not exist, or may not be read: make it, or grant Read and Describe to "
        "user 'ANONYMOUS'."
    )


def test_gap_at_start_and_while_reading(kafka: KafkaBench, opened: list[KafkaSource]) -> None:
    topic = kafka.topic()
    kafka.fill(topic, numbered(0, 100))
    read = reader(kafka, opened, topic)
    assert read.read(100) == numbered(0, 100)
    stream = StreamId(topic, 0)
    read.source.pause([stream])
    kafka.fill(topic, numbered(100, 200))
    kafka.admin.delete_records({TopicPartition(topic, 0): 150})
    with pytest.raises(GapError, match=f"{topic}/0: 50 messages from 100 on are gone") as gap:
        read.source.start(stream, Place(100))
    assert gap.value.first == 150
    # Retention that comes while the stream is read.
    read.source.start(stream, Place(150))
    read.source.pause([stream])
    kafka.admin.delete_records({TopicPartition(topic, 0): 180})
    read.source.resume([stream])
    with pytest.raises(GapError) as gap:
        read.read(200)
    assert gap.value.first == 180
    read.polls.clear()
    read.source.start(stream, Place(gap.value.first))
    assert read.read(20) == numbered(180, 200)


def test_every_stream_that_lost_messages_is_told(kafka: KafkaBench, opened: list[KafkaSource]) -> None:
    topic = kafka.topic(partitions=3)
    streams = [StreamId(topic, partition) for partition in range(3)]
    for stream in streams:
        kafka.fill(topic, numbered(0, 100), stream.partition)
    read = reader(kafka, opened, topic)
    read.read(300)
    read.source.pause(streams)
    for stream in streams:
        kafka.fill(topic, numbered(100, 200), stream.partition)
    kafka.admin.delete_records({TopicPartition(topic, stream.partition): 150 for stream in streams})
    for stream in streams:
        read.source._fetching.begin(stream, 120, None)  # at 100 it takes what was on its way
    told: list[StreamId] = []
    for _ in streams:
        with pytest.raises(GapError) as gap:
            read.read(1_000)
        told.append(gap.value.stream)
    assert sorted(told) == streams
    read.polls.clear()
    for stream in streams:
        read.source.start(stream, Place(150))
    read.read(150)


def test_a_range_that_is_not_told_is_asked_for_again(
    kafka: KafkaBench, opened: list[KafkaSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.topic(partitions=2)
    stream, other = StreamId(topic, 0), StreamId(topic, 1)
    kafka.fill(topic, numbered(0, 100))
    read = reader(kafka, opened, topic)
    read.read(100)
    read.source.pause([stream])
    kafka.fill(topic, numbered(100, 200))
    kafka.admin.delete_records({TopicPartition(topic, 0): 150})

    def silent(*_: object) -> NoReturn:
        raise KafkaTimeoutError("no answer")

    monkeypatch.setattr(kafka_source, "_PROBE_EVERY_S", 0.1)
    with monkeypatch.context() as patched:
        patched.setattr(read.source._consumer, "beginning_offsets", silent)
        read.source._fetching.begin(stream, 120, None)  # at 100 it takes what was on its way
        said = f"The range of {topic}/0 is not known: KafkaTimeoutError: no answer."
        read.read_until(lambda: read.source.trouble == said)
        # The others go on.
        kafka.fill(topic, numbered(0, 100), 1)
        read.read_until(lambda: len(read.values(other)) == 100)
        assert read.source.trouble == said
    with pytest.raises(GapError, match=f"{topic}/0: 30 messages from 120 on are gone"):
        read.read(1_000)
    read.read_until(lambda: read.source.trouble is None)


def test_a_topic_that_is_not_told_of_is_not_another_one(
    kafka: KafkaBench, opened: list[KafkaSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.topic()
    kafka.fill(topic, numbered(0, 100))
    read = reader(kafka, opened, topic)
    read.read(100)
    stream, topic_id = StreamId(topic, 0), read.source.topic_id(topic)
    assert topic_id is not None
    with monkeypatch.context() as patched:
        patched.setattr(read.source._consumer._cluster, "topic_id", lambda _: None)
        with pytest.raises(InputError, match=f"do not say the id of topic '{topic}'") as error:
            read.source.start(stream, Place(50, topic_id))
        assert not isinstance(error.value, StreamError)
    read.polls.clear()
    assert read.source.start(stream, Place(50, topic_id)).offset == 50
    assert read.read(50) == numbered(50, 100)


def test_recreated_topic_at_start(kafka: KafkaBench, opened: list[KafkaSource]) -> None:
    topic = kafka.topic()
    kafka.fill(topic, numbered(0, 100))
    read = reader(kafka, opened, topic)
    read.read(100)
    old = read.source.topic_id(topic)
    stream = StreamId(topic, 0)
    kafka.delete(topic)
    kafka.topic(name=topic)
    kafka.fill(topic, numbered(0, 300))
    other = reader(kafka, opened, topic)
    other.place = lambda _: Place(100, old)
    with pytest.raises(TopicChangedError, match=f"'{topic}' was deleted and made anew"):
        other.read_until(lambda: bool(other.gained))
    # Who was reading meanwhile may get some of the new messages, and hears of it when it is to commit them.
    try:
        read.read_until(lambda: len(read.values(stream)) > 100)
    except TopicChangedError:
        return
    assert read.source.topic_id(topic) != old
    with pytest.raises(TopicChangedError, match="made anew"):
        read.read_until(lambda: len(read.values(stream)) > 300)


def test_cut_back_topic(kafka: KafkaBench, opened: list[KafkaSource]) -> None:
    topic = kafka.topic()
    kafka.fill(topic, numbered(0, 50))
    read = reader(kafka, opened, topic)
    read.place = lambda _: Place(60)
    with pytest.raises(CutBackError, match="the log was cut back to 50, and was read to 60"):
        read.read_until(lambda: bool(read.gained))


def test_compaction_leaves_gaps_that_are_covered(kafka: KafkaBench, opened: list[KafkaSource]) -> None:
    topic = kafka.topic(
        cleanup_policy="compact", segment_ms=100, min_cleanable_dirty_ratio=0.01, delete_retention_ms=100
    )
    kafka.fill_keyed(topic, [(b"key", value) for value in numbered(0, 100)], batch=10)
    # The last segment is never cleaned: a message after the time makes a new one.
    kafka.roll(topic)
    read: list[Reader] = []

    def is_compacted() -> bool:
        opened.append(KafkaSource(kafka.settings(topic)))
        with closing(opened[-1]):
            read.append(Reader(opened[-1]))
            read[-1].read_until(lambda: bool(read[-1].polls) and read[-1].polls[-1].until >= 101)
        return len(read[-1].values()) < 50

    wait_until(is_compacted)
    assert covers_without_gap(read[-1].polls, StreamId(topic, 0), 0, read[-1].polls[-1].until)


def test_tombstones_are_rejects(kafka: KafkaBench, opened: list[KafkaSource]) -> None:
    topic = kafka.topic()
    kafka.fill(topic, [b"a", None, b"b", b""])
    read = reader(kafka, opened, topic)
    assert read.read(2) == [b"a", b"b"]
    read.read_until(lambda: read.polls[-1].until == 4)
    rejects = [reject for poll in read.polls for reject in poll.rejects]
    assert [(reject.reason, reject.payload) for reject in rejects] == [(Reason.EMPTY, 1), (Reason.EMPTY, 3)]
    assert read.offsets(StreamId(topic, 0)) == [0, 2]


def test_transactions_given_up_are_not_read(kafka: KafkaBench, opened: list[KafkaSource]) -> None:
    topic = kafka.topic()
    kafka.fill_in_transactions(
        topic, [(numbered(0, 10), True), (numbered(10, 20), False), (numbered(20, 30), True)]
    )
    read = reader(kafka, opened, topic)
    read.read_until(lambda: bool(read.polls) and read.polls[-1].until == 33)
    assert read.values() == [*numbered(0, 10), *numbered(20, 30)]
    assert covers_without_gap(read.polls, StreamId(topic, 0), 0, 33)
    assert read.source.ends() == {StreamId(topic, 0): 33}
