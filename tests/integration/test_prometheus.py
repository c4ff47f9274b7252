"""A real Prometheus scrapes a real ingest; every query of dashboard and alerts runs on what it got."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from fixtures.deploy_tools import DEPLOY, REPOSITORY, Prometheus, ensure, prometheus
from fixtures.ingest_process import NS_PER_SECOND, IngestProcess, records
from fixtures.kafka_bench import KafkaBench
from oracles.incidents import incident
from oracles.lake_script import flows_table, structures_table
from oracles.sent_spans import post, traces
from oracles.stored_lake import write_lake
from prometheus_client import CollectorRegistry

from analyze.scope import Lakes
from flowdiff.live.status_server import served
from flowdiff.live.watch_metrics import (
    STALLED_NS,
    ServiceCounters,
    WatchCollector,
    WatchStatus,
    watch_registry,
)
from flowdiff.notify.senders import Counts
from schemas.periods import parse_period

ALERTS = (DEPLOY / "prometheus" / "alerts.yml").read_text()
DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
QUERIES = sorted(
    {target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])}
    | {annotation["expr"] for annotation in DASHBOARD["annotations"]["list"]}
)
MAY_BE_EMPTY = ("> 0", "flowdiff_quality_flows_total")
"""Queries that show what happens seldom."""


def watched(lake: Path) -> CollectorRegistry:
    """What a watch serves that decided two windows and found something."""
    starts = [n * 6 * NS_PER_SECOND for n in range(100)]
    write_lake(lake, flows_table([f"r{n}" for n in range(100)], starts), structures_table())
    service = ServiceCounters()
    service.add(Lakes(str(lake)).find(parse_period("all", now_ns=0)))
    service.through_ns = time.time_ns()
    counts = Counts("webhook", sent=3, failed=1)
    return watch_registry(WatchCollector(lambda: [incident()], lambda: [counts], service), "1")


@pytest.fixture(scope="module")
def scraped(kafka: KafkaBench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """An ingest that reads two partitions, a receiver, and a Prometheus with our rules that looks twice a
    second.
    """
    ensure()
    home = tmp_path_factory.mktemp("scraped")
    topic = kafka.topic(2)
    hour_ago = time.time_ns() - 3600 * NS_PER_SECOND
    for partition in range(2):
        kafka.fill(topic, [*records(50, hour_ago, name=f"p{partition}-"), b"bad"], partition)
    options = {
        "--bootstrap": ",".join(kafka.broker.bootstrap),
        "--topics": topic,
        "--lake": home / "lake",
        "--group": topic,
        "--default-format": "native",
        "--commit-interval": "1s",
        "--window-length": "1m",
        "--idle": "1s",
        "--lateness": "1s",
        "--serve-address": "127.0.0.1:0",
    }
    words = [word for pair in options.items() for word in pair]
    received = ("--lake", home / "received", "--otlp", "127.0.0.1:0", "--serve-address", "127.0.0.1:0")
    with (
        IngestProcess(home / "log", *words) as ingest,
        IngestProcess(home / "receiver-log", *received) as receiver,
    ):
        address = ingest.wait_for("started")["serves"]
        receiving = receiver.wait_for("started")
        assert post(receiving["otlp"], traces(1)[0].protobuf())[0] == 200
        config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
        config["rule_files"] = [str(DEPLOY / "prometheus" / "alerts.yml")]
        with ExitStack() as held:
            registry, status = watched(home / "watched"), WatchStatus()
            other = held.enter_context(served("127.0.0.1:0", registry, status, status.clock, STALLED_NS))
            of_job = ([address, receiving["serves"]], [other])
            for job, targets in zip(config["scrape_configs"], of_job, strict=True):
                del job["dns_sd_configs"]
                job["static_configs"] = [{"targets": targets}]
            server = held.enter_context(prometheus(home / "prometheus", yaml.safe_dump(config)))
            server.wait_for("sum(flowdiff_published_flows_total) >= 100")
            server.wait_for("count_over_time(flowdiff_published_flows_total[1m]) >= 4")
            server.wait_for('flowdiff_otlp_requests_total{outcome="taken"} == 1')
            yield server
        for process in (ingest, receiver):
            process.signal(signal.SIGTERM)
            assert process.ended() == 0, process.text


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_of_the_dashboard_shows_something(scraped: Prometheus, query: str) -> None:
    asked = query.replace("$__rate_interval", "1m").replace("$instance", ".*")
    assert "$" not in asked
    if any(part in query for part in MAY_BE_EMPTY):
        scraped.query(asked)
    else:
        assert scraped.wait_for(asked)


def test_every_alert_is_evaluated_and_none_fires(scraped: Prometheus) -> None:
    (group,) = scraped.get("/api/v1/rules", type="alert")["groups"]
    names = re.findall(r"alert: (\w+)", ALERTS)
    assert [rule["name"] for rule in group["rules"]] == names
    deadline = time.monotonic() + 30
    while any(rule["health"] == "unknown" for rule in group["rules"]) and time.monotonic() < deadline:
        time.sleep(0.2)
        (group,) = scraped.get("/api/v1/rules", type="alert")["groups"]
    assert {rule["name"]: rule["health"] for rule in group["rules"]} == dict.fromkeys(names, "ok")
    firing = [rule["name"] for rule in group["rules"] if rule["state"] == "firing"]
    assert firing == ["FlowdiffIncident"]


def named(text: str) -> set[str]:
    return {*re.findall(r"\b(?:flowdiff|process)_[a-z_]+\b", text)}


def test_every_metric_that_is_asked_for_is_served(scraped: Prometheus) -> None:
    served = {*scraped.get("/api/v1/label/__name__/values")}
    seldom = {"flowdiff_quality_flows_total"}
    assert named(ALERTS) - served <= seldom
    assert named(" ".join(QUERIES)) - served <= seldom


def test_every_metric_that_is_served_is_in_the_docs(scraped: Prometheus) -> None:
    served = {name for name in scraped.get("/api/v1/label/__name__/values") if name.startswith("flowdiff_")}
    told = named((REPOSITORY / "docs" / "internals" / "live.md").read_text())
    families = {re.sub(r"_(bucket|count|sum)$", "", name) for name in served if not name.endswith("_created")}
    assert families - told == set()
    assert {name for name in told if name.startswith("flowdiff_")} - families <= {
        "flowdiff_quality_flows_total"
    }


def test_what_prometheus_has_is_what_was_published(scraped: Prometheus) -> None:
    def value(query: str) -> float:
        (series,) = scraped.query(query)  # of several the first would be that of either process
        return float(series["value"][1])

    assert value("sum(flowdiff_published_flows_total)") == 100
    assert value('sum(flowdiff_messages_total{topic!="otlp-proto"})') == 302
    assert value('sum(flowdiff_rejected_total{reason="bad-json"})') == 2
    assert value("sum(flowdiff_lag_messages)") == 0
    assert Path("/proc").exists()
    assert value("min(process_resident_memory_bytes)") > 50e6
    # reading pauses there: FlowdiffMemoryNearBudget
    assert value("max(flowdiff_memory_budget_bytes / flowdiff_memory_limit_bytes)") <= 0.25
