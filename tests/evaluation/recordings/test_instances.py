"""One pod of several, and a canary, in stretches of a real recording: named in the first finding."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from evaluation.recordings.instances import KINDS, figures, named, spread, write
from evaluation.recordings.labelled import read_recordings
from evaluation.recordings.measuring import Wanted, compared
from evaluation.recordings.replayed import Span, below

pytestmark = pytest.mark.evaluation


def test_a_call_that_enters_a_service_is_served_by_one_pod() -> None:
    def span(service: str, *calls: Span) -> Span:
        return Span("0", "x", service, "", 0, 1, list(calls))

    root = span("a", span("a", span("b", span("b"))), span("b"))
    spread(root, "b", np.random.default_rng(1))
    inner, outer = root.calls[0], root.calls[1]
    assert root.host == inner.host != inner.calls[0].host == inner.calls[0].calls[0].host
    assert {one.version for one in below(root) if one.service == "a"} == {"v1"}
    assert outer.host.startswith("b-")


@pytest.mark.parametrize("seed", [33, 31], ids=["pod-slow-2", "canary-fails-20"])
def test_the_first_finding_names_service_and_instance(
    seed: int, tmp_path: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The case is in the second stretch of two."""
    monkeypatch.setenv("REAL_CACHE", str(tmp_path / "cache"))
    (shop, _) = json.loads((shared_data / "faults" / "cases.json").read_text())
    shop["quiet"] = sorted(shop["quiet"])[3:5]
    (tmp_path / shop["recording"]).symlink_to(shared_data / "faults" / shop["recording"])
    (tmp_path / "cases.json").write_text(json.dumps([shop]))
    write(tmp_path, tmp_path / "out", [seed])
    (recording,) = read_recordings(tmp_path / "out")
    kind = recording.faults[0].type.partition(":")[0]
    assert kind == KINDS[seed % len(KINDS)]
    (row,) = compared(Wanted(tmp_path / "out", ("robust",), ("b",), ("faults",)), tmp_path)
    assert row["visible"] == "visible"
    assert named(row), row["top"]
    (found,) = figures([row])
    assert found == {
        **{"kind": kind, "mode": "b", "cases": 1, "first": 1, "named": 1, "passed": 0},
        "results": row["results"],
    }
