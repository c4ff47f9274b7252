"""`flowdiff ingest` as people run it, on a real broker: to the end of a topic, to a signal, to an error."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from fixtures.ingest_process import NS_PER_SECOND, ingesting, records
from fixtures.kafka_bench import KafkaBench
from fixtures.kafka_broker import Broker
from oracles import fork_server
from oracles.bucket_server import BucketServer

from stitch.lake.encoding import decode
from stitch.lake.fsck import check
from stitch.lake.manifest import open_manifest
from stitch.lake.place import open_store
from stitch.lake.store import LocalStore, Store

QUICK = ("--default-format", "native", "--commit-interval", "1s", "--window-length", "1m")


def hour_ago() -> int:
    return time.time_ns() // NS_PER_SECOND * NS_PER_SECOND - 3600 * NS_PER_SECOND


def published(store: Store) -> list[str]:
    """Id of every request in the lake, sorted; the lake is sound."""
    assert check(store) == []
    files = open_manifest(store).files("flows")
    return sorted(
        request
        for file in files
        for request in decode("flows", store.read(file.name))["request_id"].to_pylist()
    )


def options(kafka: KafkaBench, topic: str, lake: Path, group: str = "") -> tuple[object, ...]:
    """What every run needs."""
    told = ("--bootstrap", ",".join(kafka.broker.bootstrap), "--topics", topic, "--lake", lake)
    return (*told, "--group", group or topic, *QUICK)


def test_to_the_end_of_a_topic(kafka: KafkaBench, tmp_path: Path) -> None:
    topic, lake = kafka.topic(2), tmp_path / "lake"
    kafka.fill(topic, [*records(40, hour_ago()), b"not a record"], 0)
    kafka.fill(topic, records(40, hour_ago(), name="s"), 1)
    with ingesting(tmp_path, *options(kafka, topic, lake), "--until-end") as run:
        assert run.ended() == 0, run.text
        assert run.wait_for("rejected")["bad_json"] == 1
        assert run.wait_for("plain text")["level"] == "warning"
        assert run.wait_for("stopping")["at"] == "the end of the topics"
    assert published(LocalStore.at(lake)) == sorted(f"{name}{i}" for name in "rs" for i in range(40))


def test_a_file_of_any_format_is_written_and_read_as_the_page_says(
    kafka: KafkaBench, shared_data: Path, tmp_path: Path
) -> None:
    """Neither command is told a format (docs/internals/live.md, "Try it")."""
    topic, lake, server = kafka.topic(2), tmp_path / "lake", kafka.broker.bootstrap[0]
    file = shared_data / "otlp" / "trace.json"
    produce = [sys.executable, "-m", "flowdiff", "produce", file, "--topic", topic, "--bootstrap", server]
    with fork_server.Popen([*map(str, produce)]) as process:
        assert process.wait(60) == 0
    told = ("--bootstrap", server, "--topics", topic, "--lake", lake, "--group", topic)
    with ingesting(tmp_path, *told, "--until-end") as run:
        assert run.ended() == 0, run.text
        assert "rejected" not in run.text
    assert published(LocalStore.at(lake))


def test_a_signal_ends_it_in_order_and_the_next_one_goes_on(kafka: KafkaBench, tmp_path: Path) -> None:
    topic, lake = kafka.topic(), tmp_path / "lake"
    began = hour_ago()
    kafka.fill(topic, records(30, began))
    with ingesting(tmp_path, *options(kafka, topic, lake), "--log-level", "debug") as run:
        run.wait_for("commit", lambda told: told["messages"] > 0)
        run.signal(signal.SIGTERM)
        assert run.ended() == 0, run.text
        assert [told["event"] for told in run.events()][-2:] == ["lane released", "stopped"]
        assert run.wait_for("lane released")["lane"] == 1
    kafka.fill(topic, records(30, began + 60 * NS_PER_SECOND, name="s"))
    with ingesting(tmp_path, *options(kafka, topic, lake), "--until-end") as run:
        assert run.ended() == 0, run.text
    assert published(LocalStore.at(lake)) == sorted(f"{name}{i}" for name in "rs" for i in range(30))


def test_a_secret_is_in_no_log_and_no_commit(
    kafka: KafkaBench, secure_broker: Broker, tmp_path: Path
) -> None:
    topic, lake = kafka.topic(), tmp_path / "lake"
    kafka.fill(topic, records(5, hour_ago()))
    secret = secure_broker.env["PASSWORD"]
    config = tmp_path / "flowdiff.toml"
    config.write_text(
        f"""
lake = "{lake}"
[kafka]
bootstrap = ["{secure_broker.listeners("SASL_SSL")[0]}"]
topics = ["{topic}"]
default_format = "native"
[kafka.security]
protocol = "SASL_SSL"
ca_file = "{secure_broker.tls / "ca.pem"}"
username = "{secure_broker.env["USERNAME"]}"
[live]
window_length = "1m"
[log]
level = "debug"
"""
    )
    told = {"FLOWDIFF_CONFIG": str(config), "FLOWDIFF_KAFKA_SECURITY_PASSWORD": secret}
    with ingesting(tmp_path, "--until-end", **told) as run:
        assert run.ended() == 0, run.text
        assert "plain text" not in run.text
    wrong = {**told, "FLOWDIFF_KAFKA_SECURITY_PASSWORD": f"{secret}-wrong"}
    with ingesting(tmp_path, "--until-end", FLOWDIFF_KAFKA_CONNECT_TIMEOUT="2s", **wrong) as refused:
        assert refused.ended() == 2
        assert "refuses user" in refused.text
    assert len(published(LocalStore.at(lake))) == 5
    files = [file for file in lake.rglob("*") if file.is_file()]
    assert len(files) > 3
    assert [file for file in files if secret.encode() in file.read_bytes()] == []
    assert secret not in run.text + refused.text


def test_into_a_bucket(
    kafka: KafkaBench, bucket_server: BucketServer, bucket_environ: dict[str, str], tmp_path: Path
) -> None:
    topic = kafka.topic()
    kafka.fill(topic, records(20, hour_ago()))
    lake = bucket_server.new_lake()
    with ingesting(tmp_path, *options(kafka, topic, lake), "--until-end", **bucket_environ) as run:
        assert run.ended() == 0, run.text
    assert published(open_store(lake)) == sorted(f"r{i}" for i in range(20))


def test_what_it_cannot_do_is_one_line(tmp_path: Path) -> None:
    told = ("--bootstrap", "127.0.0.1:1", "--topics", "t", "--lake", tmp_path / "lake")
    soon = {"FLOWDIFF_KAFKA_CONNECT_TIMEOUT": "500ms"}
    with ingesting(tmp_path, *told, **soon) as run:
        assert run.ended() == 75
        assert "127.0.0.1:1" in run.text.splitlines()[-1]
        assert "Traceback" not in run.text
        assert run.wait_for("connecting")["to"] == "127.0.0.1:1"
    with ingesting(tmp_path, *told, "--window-length", "1m", **soon) as run:
        assert run.ended() == 2
        assert "Leave --window-length out" in run.text.splitlines()[-1]


def test_it_ends_with_4_where_every_lane_is_halted(kafka: KafkaBench, tmp_path: Path) -> None:
    topic, lake = kafka.topic(), tmp_path / "lake"
    kafka.fill(topic, records(5, hour_ago()))
    with ingesting(tmp_path, *options(kafka, topic, lake), "--until-end") as run:
        assert run.ended() == 0, run.text
    kafka.delete(topic)
    kafka.topic(name=topic)
    with ingesting(tmp_path, *options(kafka, topic, lake)) as run:
        assert run.ended() == 4, run.text
        assert "made anew" in run.wait_for("lane halted")["why"]
        assert run.text.splitlines()[-1].startswith("flowdiff: 1 lane(s) halted; lane 1: Topic")
    assert len(published(LocalStore.at(lake))) == 5
