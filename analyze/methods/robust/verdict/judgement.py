"""Judge two periods as wholes, and look at the data: what the verdict is made of (ALGORITHMS L.6, H)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from analyze.methods.robust.robust_run import RobustRun
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import PROBLEM, REFERENCE
from analyze.methods.robust.verdict.data_quality import (
    history_rows,
    quality_rows,
    silence_reason,
    silence_rows,
)
from analyze.methods.robust.verdict.load import (
    ExternalCause,
    MixChange,
    external_cause,
    least_clients,
    mean_gap_us,
    mix_change,
)
from analyze.methods.robust.verdict.outcome import Explained, Outcome, outcome
from analyze.methods.robust.verdict.period_blocks import (
    LEAST_TAIL,
    TAIL_LEVELS,
    PeriodBlocks,
    PeriodRequests,
    block_means,
    period_requests,
    profile_blocks,
    profile_log_spread,
    profile_thresholds,
    root_types,
)
from analyze.methods.robust.verdict.period_tests import (
    ALPHA,
    LEAST_TAU,
    LEAST_WINDOWS,
    NEEDED_SHARE,
    Equivalence,
    PeriodNoise,
    PeriodTest,
    equivalence,
    ordinary_noise,
    period_tests,
)
from analyze.methods.robust.verdict.places import place_equivalence
from analyze.methods.robust.verdict.sizes import Bounds, LargestChange, largest_change, visible_rows
from analyze.profile.stored import slot_traffic
from analyze.stats.silences import Silence, population_silences, silences
from analyze.stats.sums import totals
from schemas.arrays import F8
from schemas.messages import is_message
from schemas.report.accounts import Measure, QualityRow, VisibleRow

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
        places=lambda band: _places(run, band),
        bounds=Bounds(settings.matters_time, settings.matters_share),
        hidden_paths=run.confounded.hidden_paths,
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


def _places(run: RobustRun, band: float) -> tuple[float, float | None]:
    found = place_equivalence(run.tested.view, band)
    return found.share, found.largest


def _quality(
    run: RobustRun, rows: tuple[QualityRow, ...], first: Iterable[QualityRow]
) -> tuple[QualityRow, ...]:
    """With what was set aside before findings were made of it; severe rows first, and `first` before all."""
    more = [
        QualityRow(kind=one.kind, severe=one.severe, text=one.text)
        for one in run.confounded.explained.values()
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
