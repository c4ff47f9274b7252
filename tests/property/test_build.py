"""Windows built from a log: any order, lateness, repetition, lanes and restarts give what one batch gives."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from oracles.logged_lake import BuiltLake, as_rows, logged
from oracles.traffic import native_lines, otlp_messages
from oracles.whole_lake import check

from ingest.formats import codec_for
from schemas.config import DecodeConfig, StitchConfig
from schemas.events import concat_events
from stitch.kernel import stitch

SEEDS = int(os.environ.get("FLOWDIFF_TEST_SEEDS", "4"))
KINDS = ("spans", "loose", "mixed")


def events_of(kind: str, rng: np.random.Generator) -> pa.Table:
    """Some hundred events of five minutes: spans, records that name no request, or half of each."""
    seed, part = int(rng.integers(2**31)), 2 if kind == "mixed" else 1
    spans = codec_for("otlp-proto").decode(
        [*otlp_messages(20 // part, seed=seed, seconds=300, spans=12)], DecodeConfig()
    )
    if kind == "spans":
        return concat_events([spans.events])
    lines = [line.encode() for line in native_lines(40 // part, seed=seed, seconds=300)]
    records = codec_for("native").decode(lines, DecodeConfig()).events
    nameless = np.ones(records.num_rows, bool) if kind == "loose" else rng.random(records.num_rows) < 0.5
    place = records.schema.get_field_index("request_id")
    ids = pa.array(
        [
            None if gone else name
            for name, gone in zip(records["request_id"].to_pylist(), nameless, strict=True)
        ],
        pa.string(),
    )
    records = records.set_column(place, records.schema.field(place), ids)
    return concat_events([records] if kind == "loose" else [records, spans.events])


def agrees(kind: str, seed: int, scratch: Path) -> None:
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    events = events_of(kind, rng)
    late, twice = rng.choice([0, 0.001, 0.01, 0.1]), rng.choice([0, 0.01, 0.1])
    built, every = logged(events, rng, scratch, late=late, twice=twice)
    expected = stitch(every, StitchConfig())
    assert as_rows(built.table("flows"), "lane") == as_rows(expected.flows, "lane")
    assert as_rows(built.table("params")) == as_rows(expected.params)
    structures = {row["category"]: row for row in built.table("structures").to_pylist()}
    assert structures == {row["category"]: row for row in expected.structures.to_pylist()}
    ledger = built.ledger()
    assert ledger == {
        "events": every.num_rows,
        "duplicates": expected.counts["duplicates"],
        "rejected": expected.counts["rejected"],
        "late": 0,
        "missing": 0,
    }
    for store in (built.store, built.source):
        assert check(store) == []
    if built.store is not built.source:
        # Files are a function of the log: by one step at the end as by many steps, restarts and late events.
        at_once = BuiltLake(built.source, scratch / "at once", built.settings)
        at_once.finish()
        assert at_once.hashes() == built.hashes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_build_is_one_batch(kind: str, seed: int, tmp_path: Path) -> None:
    agrees(kind, seed, tmp_path)
