"""The kernel on real traces: every span placed, known counts, and the same bytes whatever the arrival."""

from __future__ import annotations

import gzip
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from oracles.agreement import disagreements
from oracles.stitcher import read_events, stitch_plainly

from ingest.codecs.otlp_json import OtlpJsonCodec
from ingest.codecs.port import Codec
from ingest.codecs.zipkin import ZipkinCodec
from schemas.config import DecodeConfig, StitchConfig
from schemas.events import concat_events
from schemas.quality import Quality
from stitch.kernel import Stitched, place_events, stitch

CONFIG = StitchConfig()


def decode(codec: Codec, payloads: list[bytes]) -> pa.Table:
    decoded = codec.decode(payloads, DecodeConfig())
    assert decoded.rejects == []
    return concat_events([decoded.events])


@cache
def boutique(shared_data: Path, name: str) -> pa.Table:
    with gzip.open(shared_data / "online-boutique" / f"{name}.otlp.jsonl.gz") as lines:
        return decode(OtlpJsonCodec(), lines.read().splitlines())


@cache
def zipkin(shared_data: Path, name: str) -> pa.Table:
    with gzip.open(shared_data / "zipkin" / f"{name}.json.gz") as text:
        return decode(ZipkinCodec(), [text.read()])


def ipc(*tables: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    for table in tables:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()


def tables(result: Stitched) -> bytes:
    return ipc(result.flows, result.structures, result.params)


def spans_placed(events: pa.Table) -> int:
    """Distinct event rows that became nodes."""
    placed, _ = place_events(events, CONFIG)
    return len(np.unique(placed.event[placed.event >= 0]))


@pytest.mark.parametrize(
    ("name", "spans", "traces"),
    [
        ("before", 22_969, 502),
        ("after-frontend-return", 25_122, 1_071),
        ("after-recommendation-delay", 23_282, 509),
    ],
)
def test_online_boutique_is_placed_whole(shared_data: Path, name: str, spans: int, traces: int) -> None:
    events = boutique(shared_data, name)
    result = stitch(events, CONFIG)
    assert (events.num_rows, spans_placed(events), result.flows.num_rows) == (spans, spans, traces)
    assert sum(result.flows["n_nodes"].to_pylist()) == 2 * spans
    bits = Quality(int(np.bitwise_or.reduce(result.flows["quality"].to_numpy())))
    assert bits in Quality.NEGATIVE  # some Node.js callbacks outlive their parents on the same pod
    assert result.rejects == []


def test_the_calm_minute_holds_fifteen_structures(shared_data: Path) -> None:
    flows = stitch(boutique(shared_data, "before"), CONFIG).flows
    sizes = Counter(flows["category"].to_pylist()).values()
    assert len(sizes) == 15
    assert sum(size > 10 for size in sizes) == 10


def test_the_frontend_that_returns_early_leaves_one_span(shared_data: Path) -> None:
    def one_span(name: str) -> int:
        return stitch(boutique(shared_data, name), CONFIG).flows["n_nodes"].to_pylist().count(2)

    assert one_span("after-frontend-return") > 7 * one_span("before")


def test_online_boutique_agrees_with_the_plain_stitcher(shared_data: Path) -> None:
    events = boutique(shared_data, "before")
    result = stitch(events, CONFIG)
    oracle = stitch_plainly(read_events(events), CONFIG)
    assert list(disagreements(result.flows, result.structures, oracle)) == []


def test_arrival_order_and_repeats_do_not_show(shared_data: Path) -> None:
    events = boutique(shared_data, "before")
    expected = tables(stitch(events, CONFIG))
    rng = np.random.default_rng(3)
    shuffled = events.take(pa.array(rng.permutation(events.num_rows)))
    assert tables(stitch(shuffled, CONFIG)) == expected
    twice = stitch(concat_events([shuffled, events]), CONFIG)
    assert tables(twice) == expected
    assert twice.counts["duplicates"] == events.num_rows


@pytest.mark.parametrize("cuts", [1, 7, 40])
def test_cuts_of_the_input_do_not_show(shared_data: Path, cuts: int) -> None:
    events = boutique(shared_data, "before")
    expected = stitch(events, CONFIG)
    by_end = events.take(pa.array(np.argsort(events["end_ns"].to_numpy(), kind="stable")))
    start = by_end["ts_ns"].to_numpy()
    rows, carry = [], None
    for piece in np.array_split(np.arange(events.num_rows), cuts):
        to_come = start[piece[-1] + 1 :]
        watermark = int(to_come.min()) if len(to_come) else None
        part = stitch(by_end.take(pa.array(piece)), CONFIG, carry=carry, watermark_ns=watermark)
        carry = part.carry
        rows += part.flows.to_pylist()
    rows.sort(key=lambda r: (r["root"], r["category"], r["start_ns"], r["request_id"]))
    assert rows == expected.flows.to_pylist()


def test_watermarks_close_flows_early(shared_data: Path) -> None:
    events = boutique(shared_data, "before")
    middle = int(np.median(events["ts_ns"].to_numpy()))
    half = stitch(events, CONFIG, watermark_ns=middle + CONFIG.idle_ns)
    assert 100 < half.flows.num_rows < 400
    assert half.carry.num_rows + 0.5 * sum(half.flows["n_nodes"].to_pylist()) == events.num_rows


def test_a_mobile_install_is_placed_without_loss(shared_data: Path) -> None:
    events = zipkin(shared_data, "smartthings-mobile-web-install")
    result = stitch(events, CONFIG)
    counts = result.counts
    assert events.num_rows == 1_041
    assert spans_placed(events) + counts["merged"] + counts["conflicts"] + counts["duplicates"] == 1_041
    # 84 late annotations without kind and time belong to spans reported whole; one id has five servers.
    assert (counts["merged"], counts["conflicts"], counts["duplicates"]) == (84, 4, 0)
    assert result.flows["request_id"].to_pylist() == events["request_id"].unique().to_pylist()
    assert (
        Quality(result.flows["quality"][0].as_py()) & ~Quality.NEGATIVE == Quality.UNTIMED | Quality.CONFLICT
    )
    assert result.flows["root"].to_pylist()[0].endswith("/get /login/tokenauth")


@pytest.mark.parametrize(
    "name",
    [
        "smartthings-mobile-web-install",
        "smartthings-oauth-authorization",
        "messaging-kafka",
        "messaging2",
        "skew",
        "yelp",
    ],
)
def test_zipkin_files_agree_with_the_plain_stitcher(shared_data: Path, name: str) -> None:
    events = zipkin(shared_data, name)
    result = stitch(events, CONFIG)
    oracle = stitch_plainly(read_events(events), CONFIG)
    assert list(disagreements(result.flows, result.structures, oracle)) == []
    counts = result.counts
    dropped = counts["merged"] + counts["conflicts"] + counts["duplicates"]
    assert spans_placed(events) + dropped == events.num_rows
    shuffled = events.take(pa.array(np.random.default_rng(1).permutation(events.num_rows)))
    assert tables(stitch(shuffled, CONFIG)) == tables(result)
    assert stitch(shuffled, CONFIG).rejects == result.rejects


def test_messaging_defers_what_consumers_do(shared_data: Path) -> None:
    events = zipkin(shared_data, "messaging-kafka")
    result = stitch(events, CONFIG)
    deferred = [n["kind"] for row in result.structures.to_pylist() for n in row["nodes"] if n["deferred"]]
    assert deferred
