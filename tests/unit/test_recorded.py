"""When a lake's recording is known to have gone on."""

from __future__ import annotations

import numpy as np

from schemas.recorded import Recorded, recordings
from schemas.windows import NS_PER_MINUTE

M = NS_PER_MINUTE


def found(
    minutes: list[int], period: tuple[int, int], *, to: int | None = None, length: int = 1
) -> list[Recorded]:
    starts = np.array(minutes, dtype=np.int64) * M
    told = recordings(starts, length * M, period[0] * M, period[1] * M, None if to is None else to * M)
    return [Recorded(*(None if ns is None else ns // M for ns in one)) for one in told]


def test_windows_side_by_side_are_one_recording() -> None:
    assert found([0, 1, 2, 3], (1, 3)) == [Recorded(0, 4, 0, 4)]


def test_a_silence_in_the_middle_of_a_period_belongs_to_it() -> None:
    assert found([0, 1, 4], (0, 5)) == [Recorded(0, 5, None, None)]
    assert found([0, 4], (0, 5)) == [Recorded(0, 5, None, None)]


def test_what_lies_far_apart_are_two_recordings() -> None:
    assert found([0, 60], (0, 1)) == [Recorded(0, 1, None, None)]
    assert found([0, 1, 60, 61], (0, 120)) == [Recorded(0, 2, None, None), Recorded(60, 62, None, None)]


def test_what_follows_a_period_was_recorded_by_the_end_of_its_window() -> None:
    history = list(range(-60, 2))
    assert found([*history, 5, 6], (0, 5)) == [Recorded(-60, 7, -1, 6)]
    assert found([*history, 15, 16], (0, 5)) == [Recorded(-60, 17, -1, 16)]
    assert found(history, (0, 5)) == [Recorded(-60, 2, -1, None)]


def test_a_live_lane_says_how_far_it_is() -> None:
    history = list(range(-60, 2))
    assert found(history, (0, 5), to=9) == [Recorded(-60, 5, 0, 5)]
    assert found([*history, 15, 16], (0, 5), to=17) == [Recorded(-60, 17, 0, 5)]
