"""Ordinary windows and pairs of them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from analyze.calibrate import WindowLevel, choose_pairs, steady
from schemas.calibration import CalibrationRecord, CalibrationSettings
from schemas.windows import NS_PER_MINUTE, Window

LENGTH = 5 * NS_PER_MINUTE


def windows(*numbers: int) -> list[Window]:
    return [Window(number * LENGTH, LENGTH) for number in numbers]


def levels(mean: list[float], failed: list[float] | None = None, n: int = 100) -> list[WindowLevel]:
    shares = failed or [0.0] * len(mean)
    return [WindowLevel(w, n, m, f) for w, m, f in zip(windows(*range(len(mean))), mean, shares, strict=True)]


def test_only_gross_signs_leave_a_window_out() -> None:
    rng = np.random.default_rng(1)
    mean = (1e6 * np.exp(rng.normal(0, 0.1, 200))).tolist()
    assert steady(levels(mean)).all()
    assert steady(levels([*mean, 1.2e6])).all()
    assert steady(levels([*mean, 3e6])).tolist() == [True] * 200 + [False]
    assert steady(levels([*mean, 0.3e6])).tolist() == [True] * 200 + [False]
    # Steady to the digit, as a simulator is: a fifth more is nothing gross all the same.
    assert steady(levels([1e6] * 20 + [1.2e6])).all()
    assert steady(levels([1e6] * 4, [0.01, 0.02, 0.01, 0.30])).tolist() == [True, True, True, False]
    nobody = WindowLevel(windows(9)[0], 0, 0.0, 0.0)
    assert steady([*levels([1e6] * 3), nobody]).tolist() == [True, True, True, False]
    assert steady([nobody]).tolist() == [False]
    assert steady([]).tolist() == []


SETTINGS = CalibrationSettings(
    pairs=10, reference_windows=2, problem_windows=1, gap_windows=2, history_windows=3
)


def test_pairs_are_adjacent_windows_without_a_break() -> None:
    told = windows(0, 1, 2, 3, 4, 10, 11, 12)
    pairs = choose_pairs(told, SETTINGS.model_copy(update={"pairs": 1000}))
    shapes = [
        ([w.start_ns // LENGTH for w in pair.reference], [w.start_ns // LENGTH for w in pair.problem])
        for pair in pairs
    ]
    assert shapes == [
        ([0, 1], [2]),
        ([0, 1], [3]),
        ([0, 1], [4]),
        ([1, 2], [3]),
        ([1, 2], [4]),
        ([2, 3], [4]),
        ([10, 11], [12]),
    ]
    for pair in pairs:
        assert len(pair.history) == 3
        assert not {*pair.history} & {*pair.reference, *pair.problem}
    assert [w.start_ns // LENGTH for w in pairs[0].history] == [3, 4, 10]


def test_the_seed_chooses() -> None:
    told = windows(*range(100))
    first = choose_pairs(told, SETTINGS)
    assert len({(pair.reference, pair.problem) for pair in first}) == 10
    assert choose_pairs(told, SETTINGS) == first
    assert choose_pairs(told, SETTINGS.model_copy(update={"seed": 1})) != first
    starts = [pair.reference[0].start_ns // LENGTH for pair in first]
    assert max(starts) - min(starts) > 40
    assert choose_pairs(told[:2], SETTINGS) == []
    assert choose_pairs([], SETTINGS) == []
    assert all(
        not pair.history for pair in choose_pairs(told, SETTINGS.model_copy(update={"history_windows": 0}))
    )


@pytest.mark.parametrize(
    ("pairs", "findings", "words"),
    [
        (
            50,
            {"slower": 1, "path": 2},
            "In 50 pairs .* gave 3 false findings \\(0.06 a pair: 2 path, 1 slower\\)\\.",
        ),
        (1, {"tail": 1}, "In 1 pair of .* gave 1 false finding \\(1.00 a pair: 1 tail\\)\\."),
        (
            20,
            {},
            "In 20 pairs .* \\(about 900 requests against 300, seed 0\\) .* gave 0 false findings\\.",
        ),
    ],
)
def test_a_record_is_one_sentence(pairs: int, findings: dict[str, int], words: str) -> None:
    record = CalibrationRecord(
        created_at="2026-11-20T10:00:00+00:00",
        created_by="test",
        method="robust",
        settings={},
        refine={},
        chosen=CalibrationSettings(),
        start_ns=0,
        end_ns=LENGTH,
        windows=1,
        unsteady=0,
        pairs=pairs,
        pairs_with_findings=len(findings),
        findings=findings,
        verdicts={"unchanged": pairs},
        requests0=900,
        requests1=300,
    )
    assert re.fullmatch(words, record.sentence)
    assert CalibrationRecord.model_validate_json(record.model_dump_json()) == record
