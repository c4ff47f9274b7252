"""Described systems do what their description says, the same from the same seed, and their faults act."""

from __future__ import annotations

from dataclasses import replace

import pytest
from evaluation.systems.described import CACHE, QUEUES, SYSTEMS
from evaluation.systems.playing import Fault, Playing, System
from evaluation.systems.recorded import T0
from evaluation.systems.spans import CONSUMER, FORMATS, PRODUCER, Span

from ingest.formats import codec_for
from schemas.config import DecodeConfig

pytestmark = pytest.mark.evaluation


def played(system: System, fault: Fault | None = None, window: int = 0) -> Playing:
    playing = Playing(replace(system, requests=60), fault, window, T0, seed=1)
    playing.play()
    return playing


def spans(playing: Playing) -> list[Span]:
    return [span for found in playing.spans.values() for span in found]


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_the_same_seed_gives_the_same_bytes_and_every_fault_others(system: System) -> None:
    quiet = played(system).document(system.form)
    assert played(system).document(system.form) == quiet
    assert played(system, window=1).document(system.form) != quiet
    for fault in system.faults:
        assert played(system, fault).document(system.form) != quiet, fault.what


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_tells_every_span(form: str) -> None:
    playing = played(CACHE)
    payloads = [line.encode() for line in playing.document(form).splitlines()]
    decoded = codec_for(f"{form}-json").decode(payloads, DecodeConfig())
    assert decoded.events.num_rows == len(spans(playing))
    assert not decoded.rejects
    assert set(decoded.events["component"].to_pylist()) == {"api", "cache", "items"}


def test_what_is_called_begins_and_ends_within_the_call_but_for_messages() -> None:
    found = {span["spanId"]: span for span in spans(played(replace(QUEUES, skew_ms=0, lost=0)))}
    assert {span["kind"] for span in found.values()} >= {PRODUCER, CONSUMER}
    for span in found.values():
        parent = found.get(span.get("parentSpanId", ""))
        if parent is not None:
            assert int(span["startTimeUnixNano"]) >= int(parent["startTimeUnixNano"])
            late = int(span["endTimeUnixNano"]) > int(parent["endTimeUnixNano"])
            assert late == (span["kind"] == CONSUMER)
