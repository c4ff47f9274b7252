"""First stage of the watch: compute for every tick and series the evidence for a change from the baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from analyze.watch.baseline import RECENT, Baseline, Sample, count_slow, fit
from analyze.watch.evidence import RunningEvidence, TickEvidence, evidence_of, log_threshold
from analyze.watch.incidents import Tracked, quiet_ticks
from analyze.watch.series import Name, Ring, WindowTicks
from analyze.watch.settings import WatchSettings
from analyze.watch.typical import groups_of, typical_instances
from schemas.arrays import B1, F8, I8
from schemas.windows import NS_PER_DAY, NS_PER_MINUTE

REFIT_SHARE: Final = 0.05
"""Share of the baseline's span, in [0, 1], after which the baseline is learned again."""
STRETCH_NS: Final = 60 * 10**9
"""Longest gap without ticks, ns, over which sums of evidence continue; after a longer gap they restart at
0."""
USUAL_TICKS: Final = 60
"""Number of recent ticks whose median number of requests counts as usual; used to detect the edges of a
recording."""
HOUR: Final = 60 * NS_PER_MINUTE


@dataclass(frozen=True, slots=True)
class Fitted:
    """Input from which a baseline was learned, and which determines it: ticks and incidents."""

    past: int
    """End, exclusive, of the ticks that the baseline was learned from."""
    span: int
    """Number of ticks that the baseline spans."""
    tracked: tuple[Tracked, ...]
    """Incidents whose ticks the baseline leaves out."""


class Detector:
    """The series of recent ticks, their baseline, and running sums of evidence against it."""

    def __init__(
        self,
        tick_ns: int,
        settings: WatchSettings,
        fitted: Fitted | None = None,
        anew: Mapping[Name, int] | None = None,
    ) -> None:
        """anew: series -> first tick of its normal behaviour, after an accepted change; earlier values are
        ignored.
        """
        self.tick_ns = tick_ns
        self.settings = settings
        self.fitted = fitted
        self.anew = dict(anew or {})
        self.ring = Ring(
            tick_ns, gone_windows=settings.gone_windows, gone_visits=settings.gone_visits, gone_ticks=RECENT
        )
        self.evidence = RunningEvidence()
        self.base: Baseline | None = None
        self.threshold = 0.0
        """Sum of log evidence at which a series alarms; 0 while the watch is learning."""

    @property
    def span(self) -> int:
        """Number of ticks that a baseline spans."""
        return self.settings.baseline_ns // self.tick_ns

    @property
    def recent_ns(self) -> int:
        """Length of the time before now, ns, of which all ticks (not only a sample) are needed to continue
        deterministically."""
        return min(RECENT, self.span) * self.tick_ns + 2 * HOUR

    @property
    def history_ns(self) -> int:
        """Length of time before now, ns, whose ticks or hours a restarted detector must read to give the same
        results.
        """
        baseline_ns, season_ns = self.settings.baseline_ns, self.settings.season_days * NS_PER_DAY
        # The baseline in use was learned a while ago, of as long a time before that.
        return max(baseline_ns, season_ns) + int(2 * REFIT_SHARE * baseline_ns) + 2 * HOUR

    @property
    def is_learning(self) -> bool:
        """True until there is a baseline with a series."""
        return self.base is None or not self.base.groups

    def sample(self, past: int, first: int) -> Sample:
        """Ticks before tick `past` from which a baseline would be learned at `past`.

        first: earliest known tick.
        """
        return Sample(past, max(min(self.span, past - first), 1), self.settings.baseline_ticks)

    def sampled(self, now: int, first: int) -> Sample:
        """Ticks from which the current baseline was learned; without a baseline, the ticks to learn from at
        tick `now`. first: earliest known tick."""
        if self.fitted is not None:
            return Sample(self.fitted.past, self.fitted.span, self.settings.baseline_ticks)
        return self.sample(now, first)

    def add(self, window: WindowTicks) -> I8:
        """Add a window's ticks and hours to the ring buffer; return the columns of its ticks there."""
        columns = self.add_ticks(window)
        self.ring.add_hours(window)
        return columns

    def add_ticks(self, window: WindowTicks) -> I8:
        """Add a window's ticks to the ring buffer, without its hours; return the columns of its ticks there.
        Ticks at the edges of a recording are skipped.
        """
        old, parts = len(self.ring.at), len(self.ring.slow)
        gone = self.ring.add_ticks(replace(window, requests=self._without_edges(window)))
        if gone:
            self.evidence.grow(len(self.ring.names))
            self.evidence.drop(window.start_ns // self.tick_ns, np.array(gone, dtype=np.int64))
        if self.base is not None and len(self.ring.slow) > parts:
            count_slow(self.ring, self.base.cuts, parts)
        return np.arange(old, len(self.ring.at))

    def _without_edges(self, window: WindowTicks) -> F8:
        """[ticks] number of requests of each tick of a window; 0 for ticks beside a gap with few requests
        (edges of a recording)."""
        requests, first = window.requests, window.start_ns // self.tick_ns
        before = len(self.ring.at) > 0 and int(self.ring.at[-1]) == first - 1
        there = np.concatenate([[before], requests > 0, [True]])
        edge = ~(there[:-2] & there[2:])
        if not edge.any():
            return requests
        usual = np.median(np.concatenate([self.ring.requests[-USUAL_TICKS:], requests[requests > 0]]))
        return np.where(edge & (requests < usual * self.settings.edge_share), 0.0, requests)

    def fit_if_due(self, past: int, tracked: Sequence[Tracked]) -> float:
        """Learn the baseline again if it is due.

        Returns the factor by which standardized deviations grew; 1 if it was not due. past: end of the ticks
        to learn from; tracked: incidents, whose ticks are left out.
        """
        fitted = self.fitted
        if self.base is not None and fitted is not None:
            is_due = past - fitted.past >= max(1, REFIT_SHARE * fitted.span)
            if not is_due and _known(tracked) == _known(fitted.tracked):
                return 1.0
        return self.fit(self.sample(past, self.first()), tracked)

    def fit(self, sample: Sample, tracked: Sequence[Tracked]) -> float:
        """Learn the baseline from a sample of ticks; return the factor by which standardized deviations
        grew.
        """
        quiet = quiet_ticks(self.ring.at, tracked)
        base = fit(self.ring, quiet, sample, self.settings, self.anew)
        at = self.ring.at[quiet & sample.takes(self.ring.at) & (self.ring.at < sample.past)]
        base = replace(base, instances=typical_instances(self.ring, at, self.settings, self.anew))
        if self.base is not None and not base.groups:
            return 1.0  # no quiet tick is left: keep the old baseline
        nearer = 1.0 if self.base is None else base.nearer_than(self.base)
        before, self.base = self.threshold, base
        self.threshold = log_threshold(base, self.tick_ns, self.settings) if base.groups else 0.0
        if before:
            self.evidence.rescale(self.threshold / before, nearer)
        self.fitted = Fitted(sample.past, sample.span, tuple(tracked))
        self.evidence.grow(len(self.ring.names))
        return nearer

    def evidence_in(self, window: WindowTicks) -> Mapping[int, Sequence[TickEvidence]]:
        """Tick -> evidence of all series at that tick, for a window that is already in the ring buffer."""
        base = self.base
        if base is None or not base.groups:
            return {}
        first = window.start_ns // self.tick_ns
        groups = [*base.groups, *groups_of(base.instances, self.ring, self.settings)]
        return evidence_of(self.ring, first, first + window.n_ticks, groups, self.threshold, self.settings)

    def begin_anew(self, ended: Tracked) -> None:
        """Count the values since the onset of incident `ended`, which was accepted, as normal behaviour."""
        self.anew |= dict.fromkeys(ended.series, ended.onset)

    def forget(self, window: WindowTicks) -> None:
        """Drop ticks, hours and `anew` entries that no window after `window` needs."""
        now = window.start_ns // self.tick_ns
        oldest = now + window.n_ticks - 2 * self.span
        self.anew = {name: at for name, at in self.anew.items() if at >= oldest}
        self.ring.keep(self.needed(now), (window.start_ns - self.history_ns) // HOUR)

    def needed(self, now: int) -> B1:
        """bool[ticks in the ring buffer]: True for ticks needed at tick `now`: recent, or in the sample to
        learn from."""
        at = self.ring.at
        sampled = self.sampled(now, self.first()).takes(at)
        needed: B1 = sampled | (at >= now - self.recent_ns // self.tick_ns)
        return needed

    def first(self) -> int:
        """First tick of the earliest stored hour."""
        return int(self.ring.hour[0]) * HOUR // self.tick_ns

    def stretch(self, column: int) -> int:
        """First tick after the last gap longer than STRETCH_NS among the ticks up to index `column` of the
        ring buffer."""
        at = self.ring.at[: column + 1]
        gaps = np.flatnonzero((np.diff(at) - 1) * self.tick_ns > STRETCH_NS)
        return int(at[gaps[-1] + 1]) if len(gaps) else int(at[0])

    def rows(self, names: Iterable[Name]) -> I8:
        """Numbers, in the ring buffer, of the series called `names`, ascending; unknown names are skipped."""
        codes = self.ring.codes
        return np.array(sorted({codes[name] for name in names if name in codes}), dtype=np.int64)


def _known(tracked: Iterable[Tracked]) -> list[object]:
    """Facts about incidents that determine which ticks a baseline leaves out."""
    return [(one.incident.id, one.onset, one.resolved, one.incident.state == "accepted") for one in tracked]
