"""Files to a topic and a topic to another one: nothing lost, and all of a request in one partition."""

from __future__ import annotations

import base64
import json
import re
import time
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest
from fixtures.kafka_bench import KafkaBench, Reader
from oracles.traffic import START_NS, write_native, write_otlp
from oracles.waiting import wait_until

from flowdiff.__main__ import main
from ingest.formats import codec_for
from ingest.kafka.kafka_settings import ProduceSettings
from ingest.kafka.kafka_source import KafkaSource
from ingest.kafka.produce import Written, produce_files, rekey
from ingest.source import StreamId
from schemas.config import DecodeConfig
from schemas.errors import InputError


def requests_of(
    kafka: KafkaBench, topic: str, format_: str, events: int
) -> dict[str, list[tuple[str, object]]]:
    """Of every request of a topic its events: partition, and what tells the event from others."""
    source = KafkaSource(kafka.settings(topic, default_format=format_))
    reader = Reader(source)
    found: dict[str, list[tuple[str, object]]] = defaultdict(list)
    codec = codec_for(format_)

    def is_all() -> bool:
        found.clear()
        for polled in reader.polls:
            decoded = codec.decode(polled.payloads, DecodeConfig())
            assert not decoded.rejects
            for row in decoded.events.select(["request_id", "id", "ts_ns", "point"]).to_pylist():
                name = (row["id"], row["ts_ns"], row["point"])
                found[row["request_id"]].append((polled.stream, name))
        return sum(map(len, found.values())) >= events

    reader.read_until(is_all)
    source.close()
    return found


def of_file(path: Path, format_: str) -> dict[str, set[object]]:
    """The same of a file."""
    from ingest.files import decode_file

    found: dict[str, set[object]] = defaultdict(set)
    for batch in decode_file(path, format_, DecodeConfig()):
        for row in batch.events.select(["request_id", "id", "ts_ns", "point"]).to_pylist():
            found[row["request_id"]].add((row["id"], row["ts_ns"], row["point"]))
    return found


@pytest.mark.parametrize("format_", ["native", "otlp-proto"])
def test_files_to_a_topic(
    kafka: KafkaBench, tmp_path: Path, format_: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, topic = tmp_path / "traces", kafka.topic(partitions=3)
    (write_native if format_ == "native" else write_otlp)(path, 200)
    told = of_file(path, format_)
    events = sum(map(len, told.values()))
    with pytest.raises(SystemExit) as end:
        main(["produce", str(path), "--topic", topic, "--bootstrap", kafka.broker.bootstrap[0]])
    assert end.value.code == 0
    shown = capsys.readouterr()
    assert re.match(rf"{events:,} spans or records in [\d,]+ messages", shown.out)
    assert "not encrypted" in shown.err
    found = requests_of(kafka, topic, format_, events)
    assert {request: {name for _, name in those} for request, those in found.items()} == told
    # No event twice, every request in one partition, and every partition has some.
    assert sum(map(len, found.values())) == events
    assert all(len({stream for stream, _ in those}) == 1 for those in found.values())
    assert len({those[0][0] for those in found.values()}) == 3


def test_topic_to_topic_by_request(kafka: KafkaBench, shared_data: Path) -> None:
    captured = (shared_data / "kafka-captured" / "otlp-proto.jsonl").read_text().splitlines()
    messages = [base64.b64decode(json.loads(line)["value"]) for line in captured]
    source, target = kafka.topic(partitions=2), kafka.topic(partitions=3)
    for index, message in enumerate(messages):
        kafka.fill(source, [message], index % 2)
    kafka.fill(source, [b"\xff\xff"])
    settings = kafka.settings(source, default_format="otlp-proto")
    written = rekey(settings, target, ProduceSettings(), lambda: False, until_end=True)
    told = codec_for("otlp-proto").decode(messages, DecodeConfig()).events
    assert (written.items, written.refused) == (told.num_rows, 1)
    found = requests_of(kafka, target, "otlp-proto", told.num_rows)
    assert set(found) == set(told["request_id"].to_pylist())
    assert all(len({stream for stream, _ in those}) == 1 for those in found.values())
    # The group is where it ended: a second run has nothing to do.
    again = rekey(settings, target, ProduceSettings(), lambda: False, until_end=True)
    assert again.items == 0
    member = Reader(KafkaSource(settings))
    member.read_until(lambda: len(member.gained) == 2)
    ends = member.source.ends()
    told_of = {stream: member.source.committed(stream) for stream in member.gained}
    assert {stream: place and place.offset for stream, place in told_of.items()} == dict(ends)
    assert all(place is not None and place.epoch is not None for place in told_of.values())
    member.source.close()


def test_damage_costs_its_neighbours_nothing(
    kafka: KafkaBench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "traces"
    write_native(path, 50)
    lines = path.read_bytes().splitlines()
    damaged = lines[7][:40]
    told = codec_for("native").decode([b"\n".join([*lines[:7], *lines[8:]])], DecodeConfig()).events
    # As lines, and as an array in a message.
    path.write_bytes(b"\n".join([*lines[:7], damaged, *lines[8:]]))
    array = b"[" + b",".join([*lines[:7], b"7", *lines[8:]]) + b"]"
    produced, packed, rekeyed = kafka.topic(partitions=3), kafka.topic(), kafka.topic(partitions=3)
    with pytest.raises(SystemExit) as end:
        main(["produce", str(path), "--topic", produced, "--bootstrap", kafka.broker.bootstrap[0]])
    assert end.value.code == 0
    assert "1 of them cannot be read, or have no id: passed on as they are" in capsys.readouterr().out
    kafka.fill(packed, [array, None, b"no record"])
    settings = kafka.settings(packed)
    written = rekey(settings, rekeyed, ProduceSettings(), lambda: False, until_end=True)
    assert (written.items, written.unread, written.refused) == (told.num_rows + 1, 1, 2)
    for topic, bad in ((produced, damaged), (rekeyed, b"7")):
        read = Reader(KafkaSource(kafka.settings(topic)))
        read.read_until(
            lambda read=read, bad=bad: bad in read.values() and events_of(read).num_rows == told.num_rows  # type: ignore[misc]
        )
        assert set(events_of(read)["request_id"].to_pylist()) == set(told["request_id"].to_pylist())
        read.source.close()


def events_of(read: Reader) -> pa.Table:
    return codec_for("native").decode(read.values(), DecodeConfig()).events


def test_rate_and_event_time_hold_messages_back(kafka: KafkaBench, tmp_path: Path) -> None:
    topic, path = kafka.topic(), tmp_path / "traces"
    record = {"component": "c", "point": "P"}
    lines = [
        json.dumps({"request_id": f"r{n}", "breadcrumb": f"b{n}", "ts": START_NS + n * 10**8, **record})
        for n in range(10)
    ]
    path.write_text("\n".join(lines))
    kafka_settings = kafka.settings(topic)

    def seconds(settings: ProduceSettings) -> float:
        began = time.monotonic()
        written = produce_files(kafka_settings, topic, [str(path)], "native", settings)
        assert written.items == 10
        return time.monotonic() - began

    # 10 records over 0.9 s of event time, or at 10 a second: never sooner.
    assert seconds(ProduceSettings(speed=1)) >= 0.9
    assert seconds(ProduceSettings(rate=10)) >= 0.9


def test_what_cannot_be_written_is_said(kafka: KafkaBench, tmp_path: Path) -> None:
    path = tmp_path / "traces"
    write_native(path, 2)
    with pytest.raises(InputError, match="Topic 't-nowhere' does not exist"):
        produce_files(
            kafka.settings("t-nowhere", request_timeout_ms=1_000),
            "t-nowhere",
            [str(path)],
            None,
            ProduceSettings(),
        )
    ui = tmp_path / "ui.json"
    ui.write_text('{"data": [{"traceID": "1", "spans": [], "processes": {}}]}')
    topic = kafka.topic()
    with pytest.raises(InputError, match="Messages of format 'jaeger-ui' are not cut by request"):
        produce_files(kafka.settings(topic), topic, [str(ui)], None, ProduceSettings())


def test_progress_is_told(kafka: KafkaBench, tmp_path: Path) -> None:
    topic, path = kafka.topic(), tmp_path / "traces"
    write_native(path, 20)
    seen: list[int] = []

    def told(written: Written) -> None:
        seen.append(written.items)

    written = produce_files(kafka.settings(topic), topic, [str(path)], None, ProduceSettings(), told)
    assert seen[-1] == written.items > 0
    wait_until(lambda: kafka.end(StreamId(topic, 0)) == written.messages)
