"""Shares with a history: how rare one is, and that none that moved by much is called unchanged."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.refined import MINUTE_NS, Call, call, request_events, stored, table
from oracles.span_events import T0

from analyze.compare import compare
from analyze.methods.port import Chosen
from analyze.methods.robust.method import METHOD
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.testing import WINDOW_SHARES
from analyze.methods.robust.view import View
from analyze.population import Sample
from analyze.profile.names import NameBook
from analyze.profile.profile import SCHEMAS, Profile, Slot
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from analyze.stats.proportions import exact_p, surprise
from schemas.report.accounts import VerdictSection

WINDOWS = [4.0, 16, 7, 12, 3, 14, 9, 15]


@pytest.mark.parametrize("reference", [[9.0, 11], [3.0, 17], [36.0, 38]], ids=["alike", "apart", "abnormal"])
def test_windows_of_the_history_alone_say_how_rare_a_share_is(reference: list[float]) -> None:
    """Of 40 requests a block; slots are two blocks of the reference, the problem, the history's."""
    slot = np.arange(3 + len(WINDOWS))
    problem = slot == 2
    noise = np.where(problem, -1, slot - (slot > 2)).astype(np.int64)
    slots = tuple(Slot(min(at // 2, 2), at, at + 1) for at in slot.tolist())
    empty = {name: schema.empty_table() for name, schema in SCHEMAS.items()}
    roles = Roles(~problem, slot < 2, problem, noise, noise_assumed=False)
    view = View(Profile(NameBook().names(), slots, **empty), roles, RobustSettings(q=0.02))
    before = WINDOWS if reference[0] > 30 else [*reference, *WINDOWS]  # one that is not normal says nothing
    x = np.array([[sum(reference) + sum(WINDOWS), 22.0, *reference, *WINDOWS]])
    n = np.array([[40.0 * 10, 40.0, *[40.0] * 10]])

    found, alone = view.shares(x, n)

    periods = np.array([[sum(before), 22.0]]), np.array([[40.0 * len(before), 40.0]])
    fisher = exact_p(*(int(v[0, at]) for at in (0, 1) for v in periods))
    history = np.array([WINDOWS]), np.full((1, len(WINDOWS)), 40.0)
    expected = surprise(*periods, *history, np.array([fisher]), q=0.02, one_sided=False)
    assert found.p == pytest.approx(expected)
    assert found.p[0] > 30 * fisher
    assert alone is not None
    kept = RobustSettings(q=fisher / 2)
    assert View(view.profile, roles, kept).shares(x, n)[0].p == pytest.approx(fisher), (
        "significant for no one"
    )


def verdict(
    n: int,
    rho: float,
    before: float,
    after: float,
    windows: int,
    long: int = 1,
    without: tuple[str, ...] = (),
) -> VerdictSection:
    """Of minutes of n requests, a share of which finds its page in the cache: a reference, a problem of so
    many minutes, and a history of minutes whose shares differ with that correlation."""
    rng = np.random.default_rng(7)

    def requests(share: float, n: int = n) -> list[Call]:
        cached, found = round(share * n), []
        for at in rng.permutation(n):
            us = 1_000 * np.exp(rng.normal(0, 0.1))
            read = call("db/cached" if at < cached else "db/read", 10, 10 + us)
            found.append(call("web/get", 0, 500 + us, read))
        return found

    strength = 1 / rho - 1
    of_windows = [(before, 1), (after, long)]
    periods = [requests(share, n * minutes) for share, minutes in of_windows]
    periods += [requests(rng.beta(before * strength, (1 - before) * strength)) for _ in range(windows)]
    starts, lengths = [0, 1, *range(1 + long, 1 + long + windows)], [1, long, *[1] * windows]
    batches = [
        table(
            [
                row
                for number, request in enumerate(period)
                for row in request_events(
                    request,
                    f"{start:08x}{number:024x}",
                    T0 + start * MINUTE_NS + number * (length * MINUTE_NS) // (len(period) + 1),
                )
            ]
        )
        for period, start, length in zip(periods, starts, lengths, strict=True)
    ]
    samples = tuple(
        Sample(str(at), "", T0 + start * MINUTE_NS, T0 + (start + length) * MINUTE_NS)
        for at, (start, length) in enumerate(zip(starts, lengths, strict=True))
    )
    whole = refine(*stored(batches), RefineSettings(), samples=samples)
    outcome = compare(
        whole.of_samples(0, 2),
        [Chosen(METHOD, RobustSettings(paths=False, without=without))],
        history=whole.of_samples(2, len(periods)),
    )
    section = outcome.report.section(VerdictSection)
    assert section is not None
    return section


@pytest.mark.parametrize(
    ("n", "rho", "before", "after", "windows"),
    [(150, 0.15, 0.2, 0.7, 20), (80, 0.05, 0.06, 0.25, 10)],
    ids=["not over the noise", "not significant"],
)
def test_a_path_that_moved_by_much_is_not_unchanged(
    n: int, rho: float, before: float, after: float, windows: int
) -> None:
    found = verdict(n, rho, before, after, windows)
    assert found.outcome == "cannot-tell"
    said = " ".join(reason.text for reason in found.reasons)
    assert found.hidden or "the share of a path may have changed by as much as matters" in said
    assert verdict(n, rho, before, before, windows).outcome == "unchanged"


def test_a_path_that_moved_for_eight_windows_is_found() -> None:
    assert verdict(80, 0.05, 0.06, 0.25, 10, long=8).outcome == "changed"


def test_it_can_be_left_out_by_name() -> None:
    assert verdict(80, 0.08, 0.06, 0.3, 10).outcome == "cannot-tell"
    assert verdict(80, 0.08, 0.06, 0.3, 10, without=(WINDOW_SHARES,)).outcome == "changed"
