"""Everything about whole periods at once, out of blocks: what a method's verdict is made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from analyze.assurance.equivalence import NEEDED_SHARE, Equivalence, equivalence
from analyze.assurance.external_cause import ExternalCause, external_cause
from analyze.assurance.largest_change import Bounds, LargestChange, largest_change
from analyze.assurance.load_change import MixChange, mix_change
from analyze.assurance.ordinary_noise import LEAST_TAU, LEAST_WINDOWS, ordinary_noise
from analyze.assurance.period_blocks import PeriodBlocks, block_means
from analyze.assurance.period_tests import ALPHA, PeriodNoise, PeriodTest, period_tests
from analyze.assurance.verdict import Explained, Outcome, outcome
from analyze.assurance.visible_change import visible_rows
from schemas.report.accounts import VisibleRow

F8 = npt.NDArray[np.float64]
_MAD = 1.4826


@dataclass(frozen=True, slots=True)
class Judgement:
    """Two periods as wholes."""

    noise: PeriodNoise
    tests: tuple[PeriodTest, ...]
    equivalent: Equivalence
    mix: MixChange
    external: ExternalCause
    visible: tuple[VisibleRow, ...]
    largest: LargestChange
    """What may have changed although nothing was found."""
    bounds: Bounds
    """Changes that matter."""
    places_share: float
    """Share of the time at places that are shown to be as fast as before."""
    tau_rate: float
    """Noise of the log of an ordinary window's arrival rate; 0 where too few windows tell."""

    def test(self, measure: str) -> PeriodTest | None:
        """The first test of a measure; None where a period is empty."""
        return next((test for test in self.tests if test.measure == measure), None)

    def outcome(
        self,
        findings: int,
        explained: Explained | None,
        *,
        by_load: str = "",
        torn: str = "",
        silent: str = "",
    ) -> Outcome:
        """See `verdict.outcome`."""
        return outcome(
            findings=findings,
            explained=explained,
            tests=self.tests,
            mix_changed=self.mix.changed,
            equivalent=self.equivalent,
            external=self.external,
            places_share=self.places_share,
            largest=self.largest,
            bounds=self.bounds,
            by_load=by_load,
            torn=torn,
            silent=silent,
        )


def judge(
    reference: PeriodBlocks,
    problem: PeriodBlocks,
    roots: Sequence[str],
    log_sd: F8,
    *,
    ordinary: PeriodBlocks | None = None,
    windows: tuple[int, int] = (1, 1),
    gaps_us: tuple[float | None, float | None] = (None, None),
    clients: Callable[[], float] = lambda: 1.0,
    visible_alpha: float = ALPHA,
    places: Callable[[float], tuple[float, float | None]] | None = None,
    bounds: Bounds | None = None,
    hidden_paths: float = 0.0,
    usual: tuple[PeriodBlocks, PeriodBlocks] | None = None,
) -> Judgement:
    """Judge. Blocks of both periods have the same roots and thresholds. visible_alpha: level of single sites.

    log_sd: [roots] of `log_spread`. ordinary: a block for each ordinary window, history and reference;
    windows: how many such windows reference and problem are long. gaps_us, clients: see `external_cause`.
    places: from the band of a mean to (share of the time at places as fast as before, largest change that
    places allow); None: nothing is known of places. hidden_paths: share of a path that lost events hide.
    usual: all ordinary windows as one long period, and the problem, with thresholds of theirs: what a change
    would have shown against, where the reference is one of many such windows. None: the reference alone.
    """
    noise = (
        PeriodNoise(windows0=windows[0], windows1=windows[1])
        if ordinary is None
        else ordinary_noise(ordinary, *windows)
    )
    tau_rate = 0.0 if ordinary is None else rate_noise(ordinary)
    tests = period_tests(reference, problem, noise)
    tails = [test for test in tests if test.measure == "tail"]
    settled = bool(tails) and all(test.settled for test in tails)
    same = equivalence(reference, problem, roots, noise, tails_settled=settled)
    share, size = (0.0, None) if places is None else places(same.band)
    against, known = _against(usual, (reference, problem), noise)
    rows = visible_rows(*against, log_sd, roots, known, alpha=visible_alpha)
    n0 = dict(zip(roots, reference.requests.sum(axis=0).tolist(), strict=True))
    visible = tuple(row.model_copy(update={"requests0": int(n0[row.root])}) for row in rows)
    sized = period_tests(*against, known) if usual is not None else tests
    # Steady places, no more slow requests: a mean that blocks of hits and misses blur is the same, too.
    as_fast = same.holds or (settled and share >= NEEDED_SHARE)
    return Judgement(
        noise=noise,
        tests=tests,
        equivalent=same,
        mix=mix_change(reference, problem),
        external=external_cause(
            reference,
            problem,
            equivalent=as_fast,
            gaps_us=gaps_us,
            clients=clients,
            largest_rise=_largest_rise(tests),
            tau_rate=tau_rate,
        ),
        visible=visible,
        largest=largest_change(
            sized,
            visible,
            size,
            hidden_paths=hidden_paths,
            noise=None if usual is None else noise,
            windows=0 if usual is None else len(usual[0].seconds),
        ),
        bounds=Bounds() if bounds is None else bounds,
        places_share=share,
        tau_rate=tau_rate,
    )


def _largest_rise(tests: Sequence[PeriodTest]) -> float:
    """Of the mean, relative, that is not excluded; inf where nothing is known."""
    mean = next((test for test in tests if test.measure == "mean"), None)
    return math.inf if mean is None or mean.before <= 0 else mean.high / mean.before


def _against(
    usual: tuple[PeriodBlocks, PeriodBlocks] | None,
    sides: tuple[PeriodBlocks, PeriodBlocks],
    noise: PeriodNoise,
) -> tuple[tuple[PeriodBlocks, PeriodBlocks], PeriodNoise]:
    """What is held against each other, and the noise between them.

    τ is of windows as they are, chance in them included (`ordinary_noise`); the problem's own chance is added
    to it by the tests, so it is taken off here.
    """
    if usual is None or not all(side.n_requests for side in usual):
        return sides, noise
    own = block_means(usual[1], by_root=False)
    chance = 0.0 if np.isnan(own.variance) else float(own.variance) / max(float(own.mean), 1e-300) ** 2
    tau = math.sqrt(max(noise.tau**2 - chance * max(noise.windows1, 1), LEAST_TAU**2))
    return usual, replace(noise, tau=tau, windows0=max(len(usual[0].seconds), 1))


def rate_noise(ordinary: PeriodBlocks) -> float:
    """Robust standard deviation of the log of windows' arrival rates; 0 for fewer than five windows."""
    weight = ordinary.weight.sum(axis=1)
    there = (weight > 0) & (ordinary.seconds > 0)
    if int(there.sum()) < LEAST_WINDOWS:
        return 0.0
    logs = np.log(weight[there] / ordinary.seconds[there])
    return _MAD * float(np.median(np.abs(logs - np.median(logs))))
