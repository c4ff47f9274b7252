"""What Kafka itself can do to a source: damage on its disk, bombs, restarts."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.kafka_bench import KafkaBench, Reader, numbered
from fixtures.kafka_broker import Broker, cut_log, started
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError
from kafka.structs import OffsetAndMetadata

from ingest.kafka.diagnosis import SECOND_TRY, connected
from ingest.kafka.kafka_settings import KafkaSettings
from ingest.kafka.kafka_source import KafkaSource
from ingest.kafka.log_reader import opened_part
from ingest.kafka.topic_input import parse_topic_input, parts_of
from ingest.source import CorruptStreamError, CutBackError, Place, StreamId
from schemas.config import DecodeConfig
from schemas.errors import InputError, UnreachableInputError
from schemas.rejects import Reason

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBench]:
    """A broker of this file's own, which may be stopped, killed and damaged."""
    with started(tmp_path_factory.mktemp("mortal")) as broker, KafkaBench(broker) as bench:
        yield bench


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


def damage(broker: Broker, topic: str, contents: bytes) -> None:
    """Change a byte of a message on the disk."""
    (log,) = (file for file in broker.log_folder(topic).glob("*.log") if file.stat().st_size)
    at = log.read_bytes().index(contents)
    with log.open("r+b") as file:
        file.seek(at)
        file.write(b"\xff")


def damaged_topic(kafka: KafkaBench) -> str:
    """Batches of 10, the third damaged."""
    topic = kafka.topic()
    kafka.fill(topic, numbered(0, 100), batch=10)
    damage(kafka.broker, topic, numbered(25, 26)[0])
    return topic


def test_damaged_batch_halts_its_stream_alone(mortal: KafkaBench, opened: list[KafkaSource]) -> None:
    topic, other = damaged_topic(mortal), mortal.topic()
    mortal.fill(other, numbered(0, 50))
    read = reader(mortal, opened, topic, other)
    with pytest.raises(CorruptStreamError, match=f"{topic}/0: offsets 20 to 29 cannot be read"):
        read.read(1_000)
    # What came before it is there, and the others go on.
    assert read.values(StreamId(topic, 0)) == numbered(0, 20)
    mortal.fill(other, numbered(50, 60))
    read.read_until(lambda: len(read.values(StreamId(other, 0))) == 60)


def test_damaged_batch_is_passed_when_asked(mortal: KafkaBench, opened: list[KafkaSource]) -> None:
    topic = damaged_topic(mortal)
    read = reader(mortal, opened, topic, on_corrupt="skip")
    assert read.read(90) == [*numbered(0, 20), *numbered(30, 100)]
    (passed,) = (poll for poll in read.polls if poll.rejects)
    (reject,) = passed.rejects
    assert (reject.reason, reject.payload, passed.until) == (Reason.BAD_COMPRESSION, 20, 30)
    assert "offsets 20 to 29" in reject.detail


def test_damage_costs_nothing_of_what_was_fetched_before(
    mortal: KafkaBench, opened: list[KafkaSource]
) -> None:
    # Of other streams, so that the damage is found while they are given.
    topic, others = damaged_topic(mortal), mortal.topic(partitions=4)
    for partition in range(4):
        mortal.fill(others, numbered(0, 50), partition)
    read = reader(mortal, opened, topic, others, on_corrupt="skip")
    read.read(90 + 4 * 50)
    assert read.values(StreamId(topic, 0)) == [*numbered(0, 20), *numbered(30, 100)]


def test_damage_that_heals_costs_nothing(mortal: KafkaBench, opened: list[KafkaSource]) -> None:
    topic = mortal.topic()
    mortal.fill(topic, numbered(0, 30), batch=10)
    value = numbered(15, 16)[0]
    damage(mortal.broker, topic, value)
    read = reader(mortal, opened, topic)
    read.read_until(lambda: bool(read.values()))
    (log,) = (file for file in mortal.broker.log_folder(topic).glob("*.log") if file.stat().st_size)
    log.write_bytes(log.read_bytes().replace(b"\xff" + value[1:], value))
    assert read.read(30) == numbered(0, 30)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_decompression_bomb_is_not_unpacked(
    mortal: KafkaBench, opened: list[KafkaSource], codec: str
) -> None:
    topic = mortal.topic()
    bomb = bytes(3 * 2**20)
    mortal.fill(topic, [b"before"])
    mortal.fill(topic, [bomb], compression_type=codec, message_max_bytes=2**23)
    mortal.fill(topic, [b"behind"])
    read = reader(mortal, opened, topic, max_unpacked_bytes=2**20, on_corrupt="skip")
    assert read.read(2) == [b"before", b"behind"]
    (reject,) = (reject for poll in read.polls for reject in poll.rejects)
    assert "unpacks to more than" in reject.detail


def test_broker_restart(
    mortal: KafkaBench, opened: list[KafkaSource], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "kafka")
    topic = mortal.topic(partitions=2)
    for partition in (0, 1):
        mortal.fill(topic, numbered(0, 100), partition)
    read = reader(mortal, opened, topic)
    read.read(200)
    mortal.broker.kill()
    # Polls give nothing, and after a while say why; nothing is raised.
    read.read_until(lambda: read.source.trouble is not None)
    assert read.source.trouble == f"No broker at {mortal.broker.bootstrap[0]}: connection refused."
    assert not read.source.commit_offsets({StreamId(topic, 0): 1})
    mortal.broker.up()
    for partition in (0, 1):
        mortal.fill(topic, numbered(100, 200), partition)
    assert len(read.read(400)) == 400
    for partition in (0, 1):
        assert read.offsets(StreamId(topic, partition)) == list(range(200))
    read.read_until(lambda: read.source.trouble is None)
    assert read.source.commit_offsets({StreamId(topic, 0): 1})


def test_one_line_where_no_broker_is(tmp_path: Path) -> None:
    settings = KafkaSettings(bootstrap=("127.0.0.1:1",), topics=("any",), connect_timeout_ms=500)
    with pytest.raises(UnreachableInputError, match=r"No broker at 127\.0\.0\.1:1: connection refused\."):
        KafkaSource(settings)


def test_a_broker_that_is_only_slow_is_given_more_time(mortal: KafkaBench) -> None:
    settings = mortal.settings("any", connect_timeout_ms=200)
    given: list[int] = []

    def slow(*, bootstrap_timeout_ms: int, **_: object) -> str:
        given.append(bootstrap_timeout_ms)
        if bootstrap_timeout_ms < 1_000:
            raise KafkaTimeoutError
        return "a client"

    assert connected(settings, slow) == "a client"
    assert given == [200, 200 * SECOND_TRY]
    with pytest.raises(
        InputError, match=r"No broker of .* answers in time\. .* raise kafka\.connect_timeout"
    ):
        connected(settings.model_copy(update={"connect_timeout_ms": 100}), slow)


def test_unclean_election_is_told_though_the_log_is_longer_again(
    mortal: KafkaBench, opened: list[KafkaSource], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "kafka")
    topic = mortal.topic()
    mortal.fill(topic, numbered(0, 100), batch=10)
    read = reader(mortal, opened, topic)
    read.read(100)
    mortal.broker.stop()
    cut_log(mortal.broker, topic, 50)
    mortal.broker.up()
    mortal.fill(topic, numbered(1_000, 1_100))  # offsets 50 to 149: what was read as 50 to 99 is another now
    with pytest.raises(CutBackError, match="the log was cut back to 50, and was read to 100"):
        read.read_until(lambda: len(read.values()) > 100)
    assert read.values() == list(numbered(0, 100))


def test_a_log_that_was_cut_back_and_grew_past_us_before_we_look_is_told(
    mortal: KafkaBench, opened: list[KafkaSource], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "kafka")
    topic = mortal.topic()
    stream = StreamId(topic, 0)
    began = reader(mortal, opened, topic)
    began.read_until(lambda: bool(began.started))
    assert began.started[stream].epoch is not None  # of an empty log too
    mortal.fill(topic, numbered(0, 100), batch=10)
    began.read(100)
    place = Place(100, began.started[stream].topic_id, began.polls[-1].epoch)
    mortal.broker.stop()
    mortal.broker.up()
    other = reader(mortal, opened, topic)
    other.place = lambda _: place
    other.read_until(lambda: bool(other.started))  # another leader, the same log
    assert other.started[stream] == place
    mortal.broker.stop()
    cut_log(mortal.broker, topic, 50)
    mortal.broker.up()
    mortal.fill(topic, numbered(1_000, 1_200))
    for _ in range(2):
        late = reader(mortal, opened, topic)
        late.place = lambda _: place
        with pytest.raises(CutBackError, match="the log was cut back to 50, and was read to 100") as error:
            late.read(1)
        assert error.value.first == 50
    assert late.source.start(stream, Place(50)).epoch is not None
    assert late.read(200) == list(numbered(1_000, 1_200))


def test_an_epoch_outlives_fetches_that_bring_nothing(
    mortal: KafkaBench, opened: list[KafkaSource], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "kafka")
    topic = mortal.topic()
    mortal.fill(topic, numbered(0, 100), batch=10)
    read = reader(mortal, opened, topic)
    read.read(100)
    state = read.source._fetching._state(TopicPartition(topic, 0))
    epoch = read.polls[-1].epoch
    for _ in range(5):  # a session of fetches begun anew brings an empty answer
        read.source._consumer._fetcher._session_handlers.clear()
        read.step()
    assert state.position == OffsetAndMetadata(100, "", epoch)


def test_every_stream_whose_log_was_cut_back_is_told(
    mortal: KafkaBench, opened: list[KafkaSource], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "kafka")
    topic = mortal.topic(partitions=3)
    for partition in range(3):
        mortal.fill(topic, numbered(0, 100), partition, batch=10)
    read = reader(mortal, opened, topic)
    read.read(300)
    mortal.broker.stop()
    for partition in range(3):
        cut_log(mortal.broker, topic, 50, partition)
    mortal.broker.up()
    for partition in range(3):
        mortal.fill(topic, numbered(1_000, 1_100), partition)
    told: list[StreamId] = []
    for _ in range(3):
        with pytest.raises(CutBackError, match="the log was cut back to 50, and was read to 100") as error:
            read.read_until(lambda: len(read.values()) > 300)
        told.append(error.value.stream)
    assert sorted(told) == [StreamId(topic, partition) for partition in range(3)]
    assert len(read.values()) == 300


def test_a_part_that_is_imported_has_no_hole(mortal: KafkaBench) -> None:
    topic = damaged_topic(mortal)
    settings = mortal.settings(topic)

    def read(rest: str) -> list[bytes]:
        name = f"kafka://{mortal.broker.bootstrap[0]}/{topic}/0@{rest}"
        (part,) = parts_of(parse_topic_input(name, now_ns=0), settings, None)
        polls = opened_part(part, settings, DecodeConfig(), 2**20)
        return [value for poll in polls for value in poll.payloads]

    assert read("5:20") == numbered(5, 20)
    assert read("30:100") == numbered(30, 100)
    for rest in ("0:100", "25:31"):
        with pytest.raises(InputError, match=rf"{topic}/0: offsets 2[05] to 29 cannot be read: the checksum"):
            read(rest)
