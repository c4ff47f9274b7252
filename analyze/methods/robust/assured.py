"""The whole period by test, data quality, what was visible: the inputs of the verdict (ALGORITHMS L.6, H)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final, Literal

import numpy as np

from analyze.assurance.external_cause import least_clients, mean_gap_us
from analyze.assurance.judgement import Judgement, judge
from analyze.assurance.largest_change import Bounds
from analyze.assurance.period_blocks import (
    LEAST_TAIL,
    TAIL_LEVELS,
    PeriodBlocks,
    PeriodRequests,
    period_requests,
    root_types,
)
from analyze.assurance.period_tests import PeriodNoise, PeriodTest, period_tests
from analyze.assurance.profile_blocks import profile_blocks, profile_log_spread, profile_thresholds
from analyze.assurance.quality_rows import history_rows, quality_rows
from analyze.assurance.silent_periods import silence_reason, silence_rows
from analyze.methods.robust.place_equivalence import place_equivalence
from analyze.methods.robust.robust_run import RobustRun
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import PROBLEM, REFERENCE
from analyze.methods.robust.vetoes.asides import Reason
from analyze.profile.stored import slot_traffic
from analyze.stats.silences import Silence, population_silences, silences
from analyze.stats.sums import totals
from schemas.messages import is_message
from schemas.report.accounts import Measure, QualityRow

_KIND: Final[dict[Reason, Literal["quality", "skew", "load", "labels"]]] = {
    "loss": "quality",
    "clock": "skew",
    "load": "load",
    "rename": "labels",
}


@dataclass(frozen=True, slots=True)
class Assured:
    """What the verdict stands on."""

    whole: Judgement
    inner_errors: PeriodTest | None
    """Of requests with a failing node anywhere: what the account of errors is about."""
    quality: tuple[QualityRow, ...]
    silent: str
    """That nothing was recorded in a stretch of the problem period, a sentence; empty where nothing is."""

    def interval(self, measure: Measure) -> tuple[float | None, float | None, bool]:
        """(low, high, changed by test) of a measure; of tails the first. None: nothing is known of that end,
        as too few requests were recorded for a test."""
        tests = self.whole.tests
        if measure == "errors" and self.inner_errors is not None:
            tests = (self.inner_errors,)
        for test in tests:
            if test.measure == measure:
                low, high = (end if np.isfinite(end) else None for end in (test.low, test.high))
                return (low, high, test.changed)
        return (None, None, False)


def assured(run: RobustRun, settings: RobustSettings) -> Assured:
    """Run the tests of the whole period and look at the data. O(requests + rows of the profile)."""
    roles, profile = run.roles, run.profile
    thresholds = profile_thresholds(profile, roles.reference)
    reference = profile_blocks(profile, _blocks(roles.reference), thresholds)
    problem = profile_blocks(profile, _blocks(roles.problem), thresholds)
    windows: PeriodBlocks | None = None
    lengths = 1, 1
    history: tuple[PeriodBlocks, ...] = ()
    if not roles.cold and roles.n_noise:
        windows = profile_blocks(profile, roles.noise)
        lengths = _lengths(windows, reference, problem)
        own = set(roles.noise[roles.reference].tolist())
        history = tuple(
            profile_blocks(profile, np.where(roles.noise == number, 0, -1))
            for number in range(roles.n_noise)
            if number not in own
        )
    roots = profile.names.roots
    requests = [period_requests(run.population, sample) for sample in (REFERENCE, PROBLEM)]
    whole = judge(
        reference,
        problem,
        roots,
        profile_log_spread(profile, roles.reference | roles.problem),
        ordinary=windows,
        windows=lengths,
        gaps_us=(mean_gap_us(requests[REFERENCE]), mean_gap_us(requests[PROBLEM])),
        clients=lambda: least_clients(_of_clients(requests[REFERENCE], root_types(run.population))),
        visible_alpha=settings.q,
        places=lambda band: _places(run, settings, band),
        bounds=Bounds(settings.matters_time, settings.matters_share),
        hidden_paths=run.sifted.hidden_paths,
        usual=_usual(run, reference, history),
    )
    silent = _silences(run)
    return Assured(
        whole=whole,
        inner_errors=_inner_errors(run, (reference, problem), whole.noise),
        quality=_quality(
            run,
            quality_rows(
                run.population, (reference, problem), roots, history=history, tau_rate=whole.tau_rate
            ),
            silence_rows(silent, run.population.samples),
        ),
        silent=silence_reason(silent[PROBLEM], run.population.samples[PROBLEM]),
    )


def _of_clients(requests: PeriodRequests, roots: Sequence[str]) -> PeriodRequests:
    """Without what messages started: nobody waits for it."""
    asked = np.array([not is_message(root) for root in roots], dtype=np.bool_)[requests.root]
    return PeriodRequests(*(getattr(requests, field.name)[asked] for field in fields(requests)))


def _silences(run: RobustRun) -> tuple[tuple[Silence, ...], ...]:
    """Of requests where they are at hand; else of slots, to the width of a window."""
    if run.patterns.patterns:
        return population_silences(run.population)
    samples = run.population.samples
    return silences([slot_traffic(run.profile, sample, samples[sample]) for sample in (REFERENCE, PROBLEM)])


def _usual(
    run: RobustRun, reference: PeriodBlocks, history: Sequence[PeriodBlocks]
) -> tuple[PeriodBlocks, PeriodBlocks] | None:
    """All ordinary windows as one period, as sites are tested, and the problem: see `judge`.

    None without a history, and where the reference is none of its like: it is the reference then that the
    user wants to hear about.
    """
    roles, profile = run.roles, run.profile
    if not history or any(row.severe for row in history_rows(reference, history)):
        return None
    table = profile.responses
    asked = float(table["n"].to_numpy()[roles.problem[table["slot"].to_numpy()]].sum())
    levels = [level for level in TAIL_LEVELS if asked * (1 - level) >= LEAST_TAIL * (1 - 1e-9)]
    thresholds = profile_thresholds(profile, roles.ordinary, levels)
    return (
        profile_blocks(profile, np.where(roles.ordinary, roles.noise, -1), thresholds),
        profile_blocks(profile, _blocks(roles.problem), thresholds),
    )


def _places(run: RobustRun, settings: RobustSettings, band: float) -> tuple[float, float | None]:
    found = place_equivalence(run.tested.own, run.profile, run.roles, settings, band)
    return found.share, found.largest


def _quality(
    run: RobustRun, rows: tuple[QualityRow, ...], first: Iterable[QualityRow]
) -> tuple[QualityRow, ...]:
    """With what was set aside before findings were made of it; severe rows first, and `first` before all."""
    more = [
        QualityRow(kind=_KIND[aside.reason], severe=aside.severe, text=aside.text)
        for aside in run.sifted.asides
    ]
    return tuple(sorted([*first, *more, *rows], key=lambda row: not row.severe))


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


def _lengths(windows: PeriodBlocks, reference: PeriodBlocks, problem: PeriodBlocks) -> tuple[int, int]:
    """How many ordinary windows the periods are long."""
    usual = max(float(np.median(windows.seconds)), 1e-9)
    first, second = (max(1, round(float(side.seconds.sum()) / usual)) for side in (reference, problem))
    return first, second


def _blocks(slots: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Every slot a block of its own."""
    return np.where(slots, np.cumsum(slots) - 1, -1).astype(np.int64)
