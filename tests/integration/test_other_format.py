"""A topic that is read as another format than its messages have; a lake with other options than before."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from oracles.captured import FILES, messages
from oracles.live_process import World, flow_rows, requests
from oracles.quiet_import import Quiet
from oracles.traffic import write_native

from ingest.formats import codec_for, format_names, format_of
from schemas.config import DecodeConfig
from stitch.drivers.batch import ImportSettings, import_into
from stitch.drivers.live.topic_format import OtherFormatError, refuse_other_format
from stitch.drivers.live.watch import Watch
from stitch.lake.chain import read_chain
from stitch.lake.fsck import check


@pytest.mark.parametrize("name", FILES)
def test_the_format_of_a_collectors_messages_is_named(shared_data: Path, name: str) -> None:
    """Read as any format that makes nothing of them."""
    payloads, right = messages(shared_data / "kafka-captured", name), format_of(FILES[name]).name
    refuse_other_format("t", right, payloads, DecodeConfig())
    for wrong in set(format_names()) - {right, "jaeger-ui", "xtrace"}:
        if codec_for(wrong).decode(payloads, DecodeConfig()).events.num_rows:
            continue
        with pytest.raises(OtherFormatError, match=f"read as {wrong}, and its messages are {right}"):
            refuse_other_format("t", wrong, payloads, DecodeConfig())


def test_what_is_no_format_stays_a_dead_letter() -> None:
    for payloads in (
        [b"hello"],
        [b"\x00\x00\x00\x00\x05\x0a\x01"],
        [b'{"a":1}'],
        [b"{}", b'{"resourceSpans":[]}'],
    ):
        refuse_other_format("t", "otlp-proto", payloads, DecodeConfig())


class Told(Watch):
    """Remembers what became of lanes."""

    def __init__(self) -> None:
        self.lanes: list[tuple[str, str]] = []

    def lane(self, lane: int, state: str, why: str) -> None:
        """See Watch."""
        if lane == 1:
            self.lanes.append((state, why))


def end(world: World) -> None:
    world.start("last")
    for _ in world.turns("last"):
        pass
    world.processes.pop("last").stop(whole=True)


def test_first_messages_of_another_format_halt_the_lane_and_pass_nothing() -> None:
    world = World(requests(12, 1, 100), partitions=1)
    world.log.format = "otlp-proto"
    for process in ("first", "second"):
        run = world.start(process)
        world.pass_time(20)
        for _ in range(3):
            run.turn(0.0)
        assert run.all_halted
        assert (
            "is read as otlp-proto, and its messages are native. Give --default-format native"
            in (run.halted[1])
        )
        run.stop()
        world.bury(process)
    records = [link.record for link in read_chain(world.store, 1)]
    assert all(place.end == 0 for record in records for place in record.standing.positions)
    assert not any(record.counters.rejects for record in records)
    world.log.format = "native"
    end(world)
    assert world.published() == {row[0]: row for row in flow_rows(world.expected().flows)}
    assert check(world.store) == []


def test_a_topic_whose_format_nobody_named_is_read_as_what_it_is() -> None:
    world = World(requests(12, 1, 100), partitions=1, watch=(told := Told()))
    world.log.format = "auto"
    world.start("first")
    for turn in world.turns("first"):
        if turn == 4:
            break
    world.processes.pop("first").stop()
    world.bury("first")
    end(world)
    records = [link.record for link in read_chain(world.store, 1)]
    assert records[-1].config["formats"] == {"spans": "native"}
    assert not any(record.counters.rejects for record in records)
    assert "set otherwise" not in [state for state, _ in told.lanes]
    world.log.format = "native"
    assert world.published() == {row[0]: row for row in flow_rows(world.expected().flows)}
    assert check(world.store) == []


def test_another_format_than_until_now_is_told_with_both_and_halts() -> None:
    sent = requests(12, 1, 100)
    world = World(sent, partitions=1, watch=(told := Told()))
    world.start("first")
    for turn in world.turns("first"):
        if turn == 4:
            break
    world.processes.pop("first").stop()
    world.bury("first")
    until = [link.record for link in read_chain(world.store, 1)][-1]
    assert until.config["formats"] == {"spans": "native"}
    world.log.format = "otlp-proto"
    run = world.start("second")
    world.pass_time(20)
    for _ in range(3):
        run.turn(0.0)
    assert run.all_halted
    run.stop()
    world.bury("second")
    changed = [why for state, why in told.lanes if state == "set otherwise"]
    assert changed == ["topic spans: native until now, otlp-proto from now on"]
    assert [link.record for link in read_chain(world.store, 1)][-1].standing.positions[0].end == (
        until.standing.positions[0].end
    )
    world.log.format = "native"
    end(world)
    assert world.published() == {row[0]: row for row in flow_rows(world.expected().flows)}


def test_an_import_with_other_label_keys_says_both(tmp_path: Path) -> None:
    summaries = []
    for number, keys in enumerate((("route",), ("route",), ("route", "tier"))):
        file = tmp_path / f"{number}.ndjson"
        write_native(file, 2, id_base=10 * number)
        settings = ImportSettings(decode=DecodeConfig(label_keys=keys))
        summaries.append(
            import_into(
                tmp_path / "lake",
                [str(file)],
                settings,
                owner="test",
                created_by="test",
                stdin=BytesIO(),
                progress=Quiet(),
            )
        )
    assert [summary.changed_settings for summary in summaries] == [
        "",
        "",
        "decode.label_keys: ['route'] until now, ['route', 'tier'] from now on",
    ]
