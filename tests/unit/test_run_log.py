"""Lines of the log: JSON for machines, one line of text for people, nothing that a terminal would act on."""

from __future__ import annotations

import json
from io import StringIO
from typing import Literal

import pytest
from prometheus_client import CollectorRegistry

from flowdiff.live.run_log import LogWatch, open_log
from flowdiff.live.run_metrics import RunMetrics
from flowdiff.settings.ingest_config import LogSettings
from schemas.commits import CommitRecord, Counters, PartitionRange, Standing


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def record(counters: Counters, **fields: object) -> CommitRecord:
    told = {
        "kind": "live",
        "lane": 3,
        "seq": 9,
        "previous": "0" * 64,
        "owner": "me",
        "created_by": "test",
        "window_length_ns": 60 * 10**9,
        "counters": counters,
        **fields,
    }
    return CommitRecord.model_validate(told)


@pytest.mark.parametrize(
    ("format_", "stream", "is_json"),
    [
        ("auto", StringIO(), True),
        ("auto", Terminal(), False),
        ("json", Terminal(), True),
        ("text", StringIO(), False),
    ],
)
def test_json_unless_a_person_looks(
    format_: Literal["auto", "json", "text"], stream: StringIO, is_json: bool
) -> None:
    open_log(LogSettings(format=format_), stream).info("lane gained", lane=1)
    line = stream.getvalue()
    if is_json:
        told = json.loads(line)
        assert (told["event"], told["level"], told["lane"]) == ("lane gained", "info", 1)
        assert told["timestamp"].endswith("Z")
    else:
        assert 'level=info event="lane gained" lane=1' in line


@pytest.mark.parametrize("format_", ["text", "json"])
def test_names_of_others_stay_text_in_one_line(format_: Literal["auto", "json", "text"]) -> None:
    stream = StringIO()
    LogWatch(open_log(LogSettings(format=format_), stream)).lane(1, "halted", "bad\n\x1b[2J'\u202etopic\"")
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()
    assert "\u202e" not in stream.getvalue()


@pytest.mark.parametrize(
    ("level", "events"),
    [
        ("debug", ["commit", "published", "rejected", "late", "gap"]),
        ("info", ["published", "rejected", "late", "gap"]),
        ("warning", ["rejected", "late", "gap"]),
        ("error", ["gap"]),
    ],
)
def test_a_commit_says_what_is_worth_a_line(
    level: Literal["debug", "info", "warning", "error"], events: list[str]
) -> None:
    stream = StringIO()
    watch = LogWatch(open_log(LogSettings(level=level), stream))
    watch.committed(record(Counters(messages=5)), 0.1)
    quiet = len(stream.getvalue().splitlines())
    assert quiet == (level == "debug")
    counters = Counters(flows=2, events_published=6, events_late=1, rejects={"bad-json": 3})
    gap = PartitionRange(topic="spans", partition=2, start=10, end=25)
    standing = Standing(sealed_to_ns=1_800_000_000 * 10**9)
    watch.committed(record(counters, gaps=(gap,), standing=standing), 0.1)
    told = [json.loads(line) for line in stream.getvalue().splitlines()[quiet:]]
    assert [line["event"] for line in told] == events
    by_event = {line["event"]: line for line in told}
    assert by_event["gap"]["messages"] == 15
    assert by_event["gap"]["stream"] == "spans/2"
    if "published" in by_event:
        assert by_event["published"]["sealed_to"].startswith("2027-01-15")
    if "rejected" in by_event:
        assert by_event["rejected"]["bad_json"] == 3


@pytest.mark.parametrize(("torn", "is_told"), [(0, False), (19, False), (90, True)])
def test_a_topic_that_tears_requests_is_told(torn: int, is_told: bool) -> None:
    stream = StringIO()
    counters = Counters(flows=100, quality={"ORPHAN": torn} if torn else {})
    LogWatch(open_log(LogSettings(format="json"), stream)).committed(record(counters), 0.1)
    assert ("a topic that is not read" in stream.getvalue()) == is_told


def test_requests_that_are_torn_are_counted() -> None:
    registry = CollectorRegistry()
    metrics = RunMetrics(registry, "test")
    for torn in (3, 4):
        metrics.committed(record(Counters(flows=10, quality={"ORPHAN": torn, "NEGATIVE": 5})), 0.1)
    assert registry.get_sample_value("flowdiff_torn_flows_total") == 7
