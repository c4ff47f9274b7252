"""Stretches of real recordings (`tests/data/faults`): what is found stays found, and quiet stays quiet."""

from __future__ import annotations

from pathlib import Path

import pytest
from evaluation.recordings.comparing import Asked, Mode, perform
from evaluation.recordings.halves import figures, halves
from evaluation.recordings.kept_lakes import lake_of
from evaluation.recordings.labelled import Recording, bounds, read_recordings, share
from evaluation.recordings.verdicts import Row, fault_row, passed_unseen, quiet_row

pytestmark = pytest.mark.evaluation


@pytest.fixture(scope="module")
def recordings(shared_data: Path) -> dict[str, Recording]:
    return {recording.name: recording for recording in read_recordings(shared_data / "faults")}


def fault(repository: Path, recording: Recording, case: str, method: str, mode: Mode) -> Row:
    found = next(f for f in recording.faults if case in f.id)
    lake = lake_of(recording, repository)
    asked = Asked(recording, lake, mode, found.reference, found.problem, quiet=False)
    return fault_row(asked, found, perform(asked, [method], {})[0])


def test_history_shares_no_instant_with_what_is_compared(recordings: dict[str, Recording]) -> None:
    for recording in recordings.values():
        for case in recording.faults:
            history = recording.history(case.reference, case.problem)
            assert len(history) >= len(recording.quiet) - 2
            assert not any(share(stretch, case.problem) for stretch in history)
            assert case.reference is None or not any(share(stretch, case.reference) for stretch in history)


def test_quiet_pairs_are_near_and_in_order(recordings: dict[str, Recording]) -> None:
    pairs = recordings["online-boutique"].quiet_pairs()
    assert len(pairs) == 14
    for one, other in pairs:
        assert 0 <= bounds(other)[0] - bounds(one)[1] <= 2 * 3_600e9


def test_paper_mode_is_the_yardstick(repository: Path, recordings: dict[str, Recording]) -> None:
    """It names a total change of a page, and is blind where few requests are broken."""
    shop = recordings["online-boutique"]
    assert fault(repository, shop, "14:47-productcatalogservice-return", "paper", "b")["rank"] == 1
    assert fault(repository, shop, "13:02-checkoutservice-exception", "paper", "b")["rank"] is None


@pytest.mark.parametrize(
    ("name", "case", "mode"),
    [
        ("online-boutique", "13:02-checkoutservice-exception", "a"),
        ("online-boutique", "14:12-paymentservice-network_delay", "a"),
        ("online-boutique", "16:31-adservice-cpu_contention", "b"),
        ("online-boutique", "14:47-productcatalogservice-return", "b"),
        ("train-ticket", "13:31-ts-contacts-service-cpu_contention", "a"),
    ],
)
def test_a_visible_fault_is_in_the_first_finding(
    repository: Path, recordings: dict[str, Recording], name: str, case: str, mode: Mode
) -> None:
    row = fault(repository, recordings[name], case, "robust", mode)
    assert row["rank"] == 1
    assert row["results"] <= 3
    assert row["exit_code"] == 1
    assert not passed_unseen(row)


def test_the_same_incident_on_both_sides_is_no_finding_and_named_as_such(
    repository: Path, recordings: dict[str, Recording]
) -> None:
    shop = recordings["online-boutique"]
    found = figures(list(halves(shop, lake_of(shop, repository), "15:12-")))
    assert (found["pairs"], found["findings"], found["there_before"]) == (1, 0, 1)


@pytest.mark.parametrize(
    ("name", "pair"),
    [("online-boutique", ("12:52:00", "13:01:00")), ("train-ticket", ("13:30:00", "14:48:00"))],
)
def test_quiet_stretches_give_no_finding(
    repository: Path, recordings: dict[str, Recording], name: str, pair: tuple[str, str]
) -> None:
    """Stretches in which nothing breaks by itself (docs/internals/evaluation.md lists the others)."""
    recording = recordings[name]
    one, other = next(p for p in recording.quiet_pairs() if (p[0][11:19], p[1][11:19]) == pair)
    asked = Asked(recording, lake_of(recording, repository), "a", one, other, quiet=True)
    row = quiet_row(asked, perform(asked, ["robust"], {})[0])
    assert row["results"] == 0
    assert row["exit_code"] in (0, 3)
