"""Calibration: compare pairs of normal periods of a lake, and count findings.

Every finding between two normal periods is false, or a change that is normal in this lake. The calibration
record gives the number of false findings to expect; every report of the lake prints it.

*Steady* windows are windows without an obvious incident. A window is excluded only if its mean response time
or its share of failures is far from the median over all windows. Excluding more windows would measure how
well quiet windows are selected, not how often a finding is false.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from pydantic import ValidationError

from analyze.methods.port import Chosen
from analyze.profile.history import NamedSamples, cut_history
from analyze.profile.profile import Profile
from analyze.profile.stored import whole_windows, window_profile
from analyze.refine.settings import RefineSettings
from analyze.report.gate import Outcome
from analyze.scope import LakePeriod, Lakes
from schemas.arrays import B1, F8
from schemas.calibration import CalibrationRecord, CalibrationSettings
from schemas.errors import PeriodError, lake_error
from schemas.periods import Period
from schemas.ranges import ranges_text, united
from schemas.report.findings import FindingsSection
from schemas.windows import Window
from stitch.lake.calibration_files import put_record, records
from stitch.lake.store import Store

FAR: Final = 5.0
"""Distance from the median over windows, in robust standard deviations (MAD), beyond which a window is
excluded as unsteady (mean response time or share of failures)."""
LEAST_FACTOR: Final = 1.5
"""Minimum factor between a window's mean response time and the median over windows to exclude the window."""
LEAST_SHARE: Final = 0.05
"""Minimum difference between a window's share of failures and the median over windows to exclude the
window."""


class WindowLevel(NamedTuple):
    """Load and health of a window."""

    window: Window
    requests: float
    """Number of requests."""
    mean_ns: float
    """Weighted mean response time, ns; 0 without requests."""
    failed: float
    """Weighted share of requests that failed, in [0, 1]; 0 without requests."""


@dataclass(frozen=True, slots=True)
class OrdinaryPair:
    """Two normal periods to compare with each other, and a history, all as windows in time order."""

    reference: tuple[Window, ...]
    problem: tuple[Window, ...]
    history: tuple[Window, ...]
    """Steady windows nearest in time to the problem, outside of both periods."""


def level_of(window: Window, profile: Profile) -> WindowLevel:
    """Compute number of requests, mean response time and share of failures of a window from its profile."""
    rows = profile.responses
    weight, ns, failed, n = (float(np.sum(rows[name].to_numpy())) for name in ("w", "ns", "failed", "n"))
    return WindowLevel(window, n, ns / weight if weight else 0.0, failed / weight if weight else 0.0)


def steady(levels: Sequence[WindowLevel]) -> B1:
    """bool[windows]: True for windows whose mean response time and share of failures are near the median over
    all windows; False for windows without requests."""
    if not levels:
        return np.zeros(0, dtype=np.bool_)
    there = np.array([level.requests > 0 for level in levels])
    mean = np.log(np.maximum([level.mean_ns for level in levels], 1.0))
    failed = np.array([level.failed for level in levels])
    near: B1 = there & _near(mean, there, np.log(LEAST_FACTOR)) & _near(failed, there, LEAST_SHARE)
    return near


def _near(values: F8, there: B1, least: float) -> B1:
    if not there.any():
        return there
    middle = np.median(values[there])
    spread = 1.4826 * np.median(np.abs(values[there] - middle))
    near: B1 = np.abs(values - middle) <= max(FAR * spread, least)
    return near


def choose_pairs(windows: Sequence[Window], settings: CalibrationSettings) -> list[OrdinaryPair]:
    """Choose `settings.pairs` pairs of periods at random, with seed `settings.seed`; all if there are fewer.

    windows: steady windows, in time order. All windows from the start of a pair's reference to the end of the
    pair's problem are steady. O(windows · gap).
    """
    n0, n1 = settings.reference_windows, settings.problem_windows
    runs = _runs(windows)
    places = [
        (first, first + n0 + gap)
        for start, past in runs
        for first in range(start, past)
        for gap in range(settings.gap_windows + 1)
        if first + n0 + gap + n1 <= past
    ]
    rng = np.random.default_rng(settings.seed)
    order = rng.permutation(len(places))[: settings.pairs]
    found = [places[at] for at in sorted(order.tolist())]
    return [_pair(windows, first, second, settings) for first, second in found]


def _runs(windows: Sequence[Window]) -> list[tuple[int, int]]:
    """Index ranges [first, past) in `windows` of the runs of adjacent windows, without gaps between them."""
    if not windows:
        return []
    cuts = [at for at, (one, other) in enumerate(pairwise(windows), 1) if one.end_ns != other.start_ns]
    return [*pairwise((0, *cuts, len(windows)))]


def _pair(windows: Sequence[Window], first: int, second: int, settings: CalibrationSettings) -> OrdinaryPair:
    reference = tuple(windows[first : first + settings.reference_windows])
    problem = tuple(windows[second : second + settings.problem_windows])
    taken = {*reference, *problem}
    others = [window for window in windows if window not in taken]
    others.sort(key=lambda window: abs(window.start_ns - problem[0].start_ns))
    return OrdinaryPair(reference, problem, tuple(sorted(others[: settings.history_windows])))


Run = Callable[[NamedSamples, NamedSamples], Outcome]
"""Function (samples to compare, history) -> outcome that runs the whole pipeline like `flowdiff compare`."""
PairWatch = Callable[[str, int, int], None]
"""Progress callback (name of the counted items, number done, total number)."""


@dataclass(frozen=True, slots=True)
class SteadyWindows:
    """Windows of periods, divided into steady ones (near the median over windows) and unsteady ones."""

    windows: tuple[Window, ...]
    """Steady windows, in time order."""
    unsteady: int
    """Number of unsteady windows, including windows without requests."""


def ordinary_times(found: Sequence[LakePeriod], refine: RefineSettings, watch: PairWatch) -> SteadyWindows:
    """Find the steady windows among the windows that lie entirely within one of the periods.

    Reads the stored profile of each window, or computes and stores it. watch: progress callback.
    """
    whole = {
        window: here
        for part in found
        for here in whole_windows(part)
        for window in here.windows
        if part.period.start_ns <= window.start_ns and window.end_ns <= part.period.end_ns
    }
    levels = []
    for done, (window, here) in enumerate(sorted(whole.items(), key=lambda item: item[0])):
        watch("Windows", done, len(whole))
        profile = window_profile(here, refine)
        if profile is not None:
            levels.append(level_of(window, profile))
    kept = steady(levels)
    windows = tuple(level.window for level, keep in zip(levels, kept.tolist(), strict=True) if keep)
    return SteadyWindows(windows, len(whole) - len(windows))


def calibrate(
    periods: Sequence[Period],
    lakes: Lakes,
    chosen: Chosen[Any],
    refine: RefineSettings,
    settings: CalibrationSettings,
    run: Run,
    *,
    watch: PairWatch,
    created_at: str,
    created_by: str,
) -> CalibrationRecord:
    """Compare pairs of normal periods (`choose_pairs`) within periods of a lake, and count the findings.

    run: compares a pair, with the method and settings of `chosen`. created_at, created_by: written into the
    record; it is deterministic otherwise. Raises PeriodError if there is no pair.
    """
    found = [lakes.sealed_part(period) for period in periods]
    ordinary = ordinary_times(found, refine, watch)
    pairs = choose_pairs(ordinary.windows, settings)
    if not pairs:
        whole = len(ordinary.windows) + ordinary.unsteady
        raise PeriodError(
            f"A pair is {settings.reference_windows} + {settings.problem_windows} adjacent steady windows, "
            f"and period {ranges_text([part.period for part in found])} has no such stretch: of its {whole} "
            f"windows {len(ordinary.windows)} are steady.",
            remedy="Give a longer --period, or fewer --reference-windows.",
        )
    kinds: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    requests: list[tuple[int, int]] = []
    with_findings = 0
    for done, pair in enumerate(pairs):
        watch("Pairs", done, len(pairs))
        outcome = _compared(pair, found[0].period, lakes, run)
        here = false_findings(outcome)
        kinds += here
        with_findings += bool(here)
        verdicts[outcome.report.methods[0].verdict.outcome] += 1
        requests.append((outcome.report.samples[0].requests, outcome.report.samples[1].requests))
    watch("Pairs", len(pairs), len(pairs))
    medians = np.median(np.array(requests), axis=0).astype(int).tolist()
    return CalibrationRecord(
        created_at=created_at,
        created_by=created_by,
        method=chosen.method.name,
        settings=chosen.settings.model_dump(mode="json"),
        refine=refine.model_dump(mode="json"),
        chosen=settings,
        start_ns=min(part.period.start_ns for part in found),
        end_ns=max(part.period.end_ns for part in found),
        windows=len(ordinary.windows),
        unsteady=ordinary.unsteady,
        pairs=len(pairs),
        pairs_with_findings=with_findings,
        findings=dict(sorted(kinds.items())),
        verdicts=dict(sorted(verdicts.items())),
        requests0=medians[0],
        requests1=medians[1],
    )


def _compared(pair: OrdinaryPair, period: Period, lakes: Lakes, run: Run) -> Outcome:
    def ranges(windows: Sequence[Window]) -> list[Period]:
        parts = [Period(period.lake, window.start_ns, window.end_ns, period.where) for window in windows]
        return list(united(parts))

    samples = [("reference", lakes.ranges(ranges(pair.reference)))]
    samples.append(("problem", lakes.ranges(ranges(pair.problem))))
    if not pair.history:
        return run(samples, ())
    usual = cut_history(ranges(pair.history), [parts for _, parts in samples], lakes)
    return run(samples, usual.samples)


def false_findings(outcome: Outcome) -> Counter[str]:
    """Kind of finding -> number, for the first method of an outcome; from `Outcome.weighed` if the method's
    report has no section of findings."""
    first = outcome.report.methods[0].name
    for section in outcome.report.sections:
        if isinstance(section, FindingsSection) and section.method == first:
            counts = Counter(finding.kind.value for finding in section.findings)
            unlisted = section.findings_total - len(section.findings)
            return counts + Counter({"other": unlisted} if unlisted > 0 else {})
    return Counter(found.kind for found in outcome.weighed)


def keep_record(found: LakePeriod, record: CalibrationRecord) -> str:
    """Write a calibration record into the lake of `found` and return its path. Raises LakeError if the lake
    cannot be written."""
    data = f"{record.model_dump_json(indent=1)}\n".encode()
    try:
        return f"{found.lake}/{put_record(found.store, data)}"
    except OSError as error:
        raise lake_error(
            f"The calibration cannot be written to '{found.lake}': {error.strerror or error}.",
            error,
            remedy="Check space and permissions; --no-save only prints it.",
        ) from error


def newest_record(store: Store) -> CalibrationRecord | None:
    """Newest readable calibration record of a lake that has the current version; None if there is none."""
    try:
        for data in records(store):
            try:
                return CalibrationRecord.model_validate_json(data)
            except ValidationError:  # of another version
                continue
    except OSError:
        return None
    return None


def calibration_sentence(store: Store, chosen: Chosen[Any], refine: RefineSettings) -> str:
    """Sentence on the number of false findings to expect, from the lake's newest calibration record.

    chosen, refine: settings of the current run; the sentence says so if the calibration had other settings.
    Empty if the newest record is of another method, or there is none."""
    record = newest_record(store)
    if record is None or record.method != chosen.method.name:
        return ""
    same = record.settings == chosen.settings.model_dump(mode="json") and record.refine == refine.model_dump(
        mode="json"
    )
    sentence = record.sentence if same else record.sentence.replace("these settings", "other settings")
    return f"{sentence} Measured {record.created_at[:10]}."
