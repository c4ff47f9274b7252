"""The whole period by test, data quality, what was visible: the inputs of the verdict (ALGORITHMS L.6, H)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from analyze.assurance.equivalence import Equivalence, equivalence
from analyze.assurance.external_cause import ExternalCause, external_cause, mean_gap_us
from analyze.assurance.judgement import rate_noise
from analyze.assurance.load_change import MixChange, mix_change
from analyze.assurance.ordinary_noise import ordinary_noise
from analyze.assurance.period_blocks import PeriodBlocks, period_requests
from analyze.assurance.period_tests import PeriodNoise, PeriodTest, period_tests
from analyze.assurance.profile_blocks import profile_blocks, profile_log_spread, profile_thresholds
from analyze.assurance.quality_rows import quality_rows
from analyze.assurance.visible_change import visible_rows
from analyze.methods.robust.robust_run import RobustRun
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import PROBLEM, REFERENCE
from analyze.sites.totals import totals
from schemas.report.accounts import Measure, QualityRow, VisibleRow


@dataclass(frozen=True, slots=True)
class Assured:
    """What the verdict stands on."""

    tests: tuple[PeriodTest, ...]
    inner_errors: PeriodTest | None
    """Of requests with a failing node anywhere: what the account of errors is about."""
    mix: MixChange
    equivalent: Equivalence
    external: ExternalCause
    quality: tuple[QualityRow, ...]
    visible: tuple[VisibleRow, ...]

    def interval(self, measure: Measure) -> tuple[float, float, bool]:
        """(low, high, changed by test) of a measure; of tails the first."""
        tests = self.tests
        if measure == "errors" and self.inner_errors is not None:
            tests = (self.inner_errors,)
        for test in tests:
            if test.measure == measure:
                return (float(np.nan_to_num(test.low)), float(np.nan_to_num(test.high)), test.changed)
        return (0.0, 0.0, False)


def assured(run: RobustRun, settings: RobustSettings) -> Assured:
    """Run the tests of the whole period and look at the data. O(requests + rows of the profile)."""
    roles, profile = run.roles, run.profile
    thresholds = profile_thresholds(profile, roles.reference)
    reference = profile_blocks(profile, _blocks(roles.reference), thresholds)
    problem = profile_blocks(profile, _blocks(roles.problem), thresholds)
    noise, tau_rate = PeriodNoise(), 0.0
    history: tuple[PeriodBlocks, ...] = ()
    if not roles.cold and roles.n_noise:
        windows = profile_blocks(profile, roles.noise)
        own = set(roles.noise[roles.reference].tolist())
        history = tuple(
            profile_blocks(profile, np.where(roles.noise == number, 0, -1))
            for number in range(roles.n_noise)
            if number not in own
        )
        noise, tau_rate = _noise(windows, reference, problem), rate_noise(windows)
    roots = profile.names.roots
    gaps = tuple(mean_gap_us(period_requests(run.population, sample)) for sample in (REFERENCE, PROBLEM))
    spread = profile_log_spread(profile, roles.reference | roles.problem)
    tests = period_tests(reference, problem, noise)
    tails = [test for test in tests if test.measure == "tail"]
    settled = bool(tails) and all(test.settled for test in tails)
    equivalent = equivalence(reference, problem, roots, noise, tails_settled=settled)
    return Assured(
        tests=tests,
        inner_errors=_inner_errors(run, (reference, problem), noise),
        mix=mix_change(reference, problem),
        equivalent=equivalent,
        external=external_cause(
            reference,
            problem,
            equivalent=equivalent.holds,
            gaps_us=(gaps[0], gaps[1]),
            tau_rate=tau_rate,
        ),
        quality=quality_rows(run.population, (reference, problem), roots, history=history, tau_rate=tau_rate),
        visible=visible_rows(reference, problem, spread, roots, noise, alpha=settings.q),
    )


def _inner_errors(
    run: RobustRun, sides: tuple[PeriodBlocks, PeriodBlocks], noise: PeriodNoise
) -> PeriodTest | None:
    """The test of errors with every request that has a failing node in the place of those that failed."""
    origins = run.profile.origins
    slot, root, w = (origins[name].to_numpy() for name in ("slot", "root", "w"))
    n_roots = len(run.profile.names.roots)
    counted = []
    for side, slots in zip(sides, (run.roles.reference, run.roles.problem), strict=True):
        block = _blocks(slots)[slot]
        used = block >= 0
        cells = totals(block[used] * n_roots + root[used], w[used], side.failed.size)
        counted.append(replace(side, failed=cells.reshape(side.failed.shape)))
    tests = period_tests(counted[0], counted[1], noise)
    return next((test for test in tests if test.measure == "errors"), None)


def _noise(windows: PeriodBlocks, reference: PeriodBlocks, problem: PeriodBlocks) -> PeriodNoise:
    usual = float(np.median(windows.seconds))
    lengths = [max(1, round(float(side.seconds.sum()) / max(usual, 1e-9))) for side in (reference, problem)]
    return ordinary_noise(windows, *lengths)


def _blocks(slots: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Every slot a block of its own."""
    return np.where(slots, np.cumsum(slots) - 1, -1).astype(np.int64)
