"""`flowdiff ingest` into a bucket whose server is killed again and again: nothing lost, nothing doubled."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from fixtures.ingest_process import NS_PER_SECOND, IngestProcess, ingesting, records
from fixtures.kafka_bench import KafkaBench
from oracles.bucket_server import mortal_versitygw
from oracles.waiting import wait_until

from schemas.errors import LakeError
from stitch.lake.bucket.bucket_settings import bucket_settings
from stitch.lake.bucket.bucket_store import BucketStore
from stitch.lake.encoding import decode
from stitch.lake.fsck import check
from stitch.lake.manifest import open_manifest

GATEWAY = os.environ.get("FLOWDIFF_TEST_VERSITYGW")
KILLS = 20
REQUESTS = 200
"""Sent to each of two partitions before each kill, twenty seconds of event time."""


def commits_in(run: IngestProcess) -> int:
    return sum(said["event"] == "commit" for said in run.events())


@pytest.mark.skipif(GATEWAY is None, reason="moto keeps its objects in memory: `make buckets` has a gateway")
def test_live_ingestion_outlives_a_server_that_is_killed_again_and_again(
    kafka: KafkaBench, tmp_path: Path
) -> None:
    rng, topic = random.Random(1), kafka.topic(2)
    begin_ns = time.time_ns() // NS_PER_SECOND * NS_PER_SECOND - 3600 * NS_PER_SECOND
    with mortal_versitygw(Path(str(GATEWAY)), tmp_path) as (server, kill_and_start):
        lake = server.make_bucket().new_lake()
        words = (
            *("--bootstrap", ",".join(kafka.broker.bootstrap), "--topics", topic, "--group", topic),
            *("--lake", lake, "--default-format", "native", "--window-length", "1m"),
            *("--commit-interval", "200ms", "--log-level", "debug"),
        )
        environ = {
            **server.environ,
            "FLOWDIFF_BUCKET_TIMEOUT": "5",
            "FLOWDIFF_CACHE": str(tmp_path / "cache"),
            # The watermark of an idle stream would follow the clock, and what comes then be late.
            "FLOWDIFF_LIVE_IDLE": "1h",
        }
        starts = commits = sent = 0
        while sent < KILLS:
            starts += 1
            with ingesting(tmp_path, *words, **environ) as run:
                while sent < KILLS and run.process.poll() is None:
                    for partition, name in enumerate("rs"):
                        at_ns = begin_ns + sent * REQUESTS * NS_PER_SECOND // 10
                        kafka.fill(topic, records(REQUESTS, at_ns, name=f"{name}{sent}-"), partition)
                    sent += 1
                    run.wait_for("commit")
                    seen = commits_in(run)
                    time.sleep(rng.uniform(0.0, 0.5))
                    kill_and_start()
                    wait_until(
                        lambda run=run, seen=seen: commits_in(run) != seen or run.process.poll() is not None
                    )
                run.signal(signal.SIGTERM)
                assert run.ended() in (0, LakeError.exit_code), run.text
                commits += commits_in(run)
        with ingesting(tmp_path, *words, "--until-end", **environ) as run:
            assert run.ended() == 0, run.text
        print(f"\n{KILLS} kills of the server, {starts} starts, {commits} commits while it was killed")
        store = BucketStore(bucket_settings(lake, {**environ, "AWS_ENDPOINT_URL": server.endpoint}))
        assert check(store) == []
        found = Counter(
            request
            for file in open_manifest(store).files("flows")
            for request in decode("flows", store.read(file.name), ["request_id"])["request_id"].to_pylist()
        )
        everything = [f"{name}{kill}-{n}" for name in "rs" for kill in range(KILLS) for n in range(REQUESTS)]
        assert found == Counter(everything)
