"""Fast lane of the watch: sealed windows in, incidents out; a function of windows, settings and version.

The first stage sums evidence over series, the second compares. Decisions are in `State`, from which another
process continues exactly as this one would have.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from analyze.profile.history import LEAST_BLOCKS
from analyze.report.gate import Outcome
from analyze.watch.baseline import MOST_POOLED, RECENT, Baseline, Sample, count_slow, fit
from analyze.watch.decide import (
    CHANGED,
    NOT_SURE,
    UNCHANGED,
    UNSURE,
    Decide,
    Decision,
    Range,
    joined,
    sure_enough,
)
from analyze.watch.evidence import Kept, RunningEvidence, TickEvidence, evidence_of, log_threshold
from analyze.watch.incidents import Book, Tracked, places_of, quiet_ticks, split_by_onset, worse_of
from analyze.watch.ordinary import Ordinary
from analyze.watch.series import Name, Ring, Seen, WindowTicks
from analyze.watch.settings import WatchSettings
from analyze.watch.typical import groups_of, typical_instances
from schemas.arrays import B1, F8, I8
from schemas.config import Config
from schemas.incidents import Incident, IncidentEvent, LaneName
from schemas.watch_tables import ChangePoint, WatchRun
from schemas.windows import NS_PER_DAY, NS_PER_MINUTE

REFIT_SHARE: Final = 0.05
"""The baseline is refitted after this fraction of its span."""
STRETCH_NS: Final = 60 * 10**9
"""A longer gap ends a stretch: sums restart behind it."""
USUAL_TICKS: Final = 60
"""Recent ticks that the usual number of requests is taken from, to detect edges of a recording."""
LEARNING: Final = "learning"
LOAD: Final = "load"
_HOUR: Final = 60 * NS_PER_MINUTE


class State(Config):
    """State of a watch: all that a restart needs beside the windows."""

    lake_id: str
    tick_ns: int
    through_ns: int
    """Windows that end at or before this time are decided."""
    began_ns: int = 0
    """Time from which the watch decides."""
    suspended: str = LEARNING
    """Reason why nothing could be detected in the last window; empty if it was watched."""
    sums: tuple[Kept, ...] = ()
    tracked: tuple[Tracked, ...] = ()
    fitted: int | None = None
    """Tick before which the current baseline was learned; None before the first."""
    fitted_span: int = 1
    """Ticks that the current baseline spans."""
    fitted_tracked: tuple[Tracked, ...] = ()
    """Incidents excluded from the current baseline."""
    anew: tuple[tuple[Name, int], ...] = ()
    """First tick of some series' ordinary times, after an accepted change."""
    ordinary: tuple[tuple[int, float], ...] = ()
    """(Onset, size) of refuted and skipped changes; sizes relative to a large step."""
    instances: tuple[tuple[Name, Seen], ...] | None = None
    """Instances that are not gone; None before instances were first looked for."""
    peaks: tuple[tuple[int, float], ...] = ()
    """(Day, requests of its busiest tick): a baseline is learned from only a sample of the ticks."""


@dataclass(slots=True)
class Decided:
    """Decisions over one window."""

    run: WatchRun | None
    """Row of the run; None for the start of a watch or a person's order."""
    events: list[IncidentEvent] = field(default_factory=list)
    change_points: list[ChangePoint] = field(default_factory=list)

    @classmethod
    def nothing(cls) -> Decided:
        """Empty decision: no window was decided."""
        return cls(None)


KeepReport = Callable[[Outcome], str]
"""Stores a report and returns its id; empty if none is stored."""


class Watcher:
    """The fast lane over the windows of a lake, in order."""

    def __init__(
        self,
        state: State,
        settings: WatchSettings,
        decide: Decide,
        *,
        keep: KeepReport = lambda _: "",
        windows_of: Callable[[int, int], Sequence[Range]] = lambda *_: (),
    ) -> None:
        """windows_of: sealed windows of the lake within a range, for histories longer than the ring."""
        self.settings = settings
        self.state = state
        self.decide_by = decide
        self._keep = keep
        self._windows_of = windows_of
        self.ring = Ring(
            state.tick_ns,
            gone_windows=settings.gone_windows,
            gone_visits=settings.gone_visits,
            gone_ticks=RECENT,
        )
        if state.instances is not None:
            self.ring.there, self.ring.there_at = dict(state.instances), state.through_ns // state.tick_ns
        self.evidence = RunningEvidence()
        self.book = Book(state.lake_id, state.tick_ns, settings, state.tracked)
        self._base: Baseline | None = None
        self._threshold = 0.0
        self._anew = dict(state.anew)
        self._ordinary = Ordinary(state.ordinary, settings, state.tick_ns, state.began_ns)
        self._withheld = set[Name]()
        self._restored = False
        self._window_ns = state.tick_ns

    @property
    def tick_ns(self) -> int:
        """Length of a tick."""
        return self.state.tick_ns

    @property
    def _span(self) -> int:
        """Ticks spanned by a baseline."""
        return self.settings.baseline_ns // self.tick_ns

    @property
    def recent_ns(self) -> int:
        """Time span of which all ticks are needed to continue exactly as one process would."""
        return min(RECENT, self._span) * self.tick_ns + 2 * _HOUR

    @property
    def history_ns(self) -> int:
        """Time span of which some ticks or hours are needed for that."""
        baseline_ns, season_ns = self.settings.baseline_ns, self.settings.season_days * NS_PER_DAY
        # The baseline in use was learned a while ago, of as long a time before that.
        return max(baseline_ns, season_ns) + int(2 * REFIT_SHARE * baseline_ns) + 2 * _HOUR

    def sample(self, past: int, first: int) -> Sample:
        """Ticks to learn from before tick `past`, `first` being the earliest known one."""
        return Sample(past, max(min(self._span, past - first), 1), self.settings.baseline_ticks)

    def sampled(self, now: int, first: int) -> Sample:
        """Older ticks that are needed at tick `now`, `first` being the earliest known one."""
        if self.state.fitted is not None:
            return Sample(self.state.fitted, self.state.fitted_span, self.settings.baseline_ticks)
        return self.sample(now, first)

    def learn(self, window: WindowTicks) -> None:
        """Add a window that is already decided, or precedes the watch."""
        self.add_ticks(window)
        self.ring.add_hours(window)
        self._forget(window)

    def decide(self, window: WindowTicks) -> Decided:
        """Decide the next window, and advance the state."""
        began = time.perf_counter()
        if not self._restored:
            self._restore()
        columns = self.add_ticks(window)
        self.ring.add_hours(window)
        self._window_ns = window.n_ticks * window.tick_ns
        first = window.start_ns // self.tick_ns
        self._fit_if_due(first - self.settings.guard_ticks)
        decided = Decided(None)
        base = self._base
        suspended = self._suspended(window)
        threshold = self._threshold
        comparisons = 0
        self._withheld.clear()
        if base is not None and base.groups:
            groups = [*base.groups, *groups_of(base.instances, self.ring, self.settings)]
            said = evidence_of(self.ring, first, first + window.n_ticks, groups, threshold, self.settings)
            last = len(self.ring.at) - len(columns) - 1
            # A pool may end in this window without a request in it.
            if last >= 0 and int(self.ring.at[last]) in said:
                comparisons += self._tick(last, said, threshold, decided, bool(suspended), again=True)
            for column in columns:
                comparisons += self._tick(int(column), said, threshold, decided, bool(suspended))
        self.book.forget(first)
        decided.run = WatchRun(
            window_ns=window.start_ns,
            through_ns=window.start_ns + window.n_ticks * window.tick_ns,
            requests=int(window.requests.sum()),
            ticks=window.n_ticks,
            threshold=threshold,
            candidates=sum(one.comparisons == 1 and bool(one.log_evidence) for one in decided.change_points),
            comparisons=comparisons,
            withheld=len(self._withheld),
            folded=window.folded,
            suspended=suspended,
            series=0 if base is None else base.n_series,
            quiet_ticks=0 if base is None else base.n_ticks,
            seconds=time.perf_counter() - began,
        )
        self._move_on(window, suspended)
        self.collect(decided)
        return decided

    def collect(self, decided: Decided) -> None:
        """Move the incidents' events since the last call into the decision and the state."""
        decided.events += self.book.events
        self.book.events = []
        if decided.run is not None:
            decided.run = decided.run.model_copy(update={"open_incidents": len(self.book.open)})
        anew = tuple(sorted(self._anew.items()))
        self.state = self.state.model_copy(update={"tracked": tuple(self.book.tracked), "anew": anew})

    def quiet(self, ranges: Sequence[Range], *, small: Collection[LaneName] = ()) -> list[Range]:
        """Ranges without an incident of the fast lane or of the lanes in `small`."""
        start, end = np.array(ranges, dtype=np.int64).reshape(-1, 2).T // self.tick_ns
        length = np.maximum(end - start, 1)
        are_quiet = quiet_ticks(start, self.book.tracked, length=length, small=small).tolist()
        return [range_ for range_, is_quiet in zip(ranges, are_quiet, strict=True) if is_quiet]

    def accept(self, id_: str, at: int, note: str = "") -> Incident | None:
        """Accept an open incident as the new normal; None if no open incident has this id."""
        ended = self.book.end(id_, at, "accepted", note)
        if ended is None:
            return None
        self._begin_anew(ended)
        return ended.incident

    # Baseline

    def add_ticks(self, window: WindowTicks) -> I8:
        """Add a window without its hours; returns the columns of its ticks. Ticks at edges of a recording are
        skipped.
        """
        old, parts = len(self.ring.at), len(self.ring.slow)
        gone = self.ring.add_ticks(replace(window, requests=self._without_edges(window)))
        if gone:
            self.evidence.grow(len(self.ring.names))
            self.evidence.drop(window.start_ns // self.tick_ns, np.array(gone, dtype=np.int64))
        if self._base is not None and len(self.ring.slow) > parts:
            count_slow(self.ring, self._base.cuts, parts)
        return np.arange(old, len(self.ring.at))

    def _without_edges(self, window: WindowTicks) -> F8:
        """[ticks] requests; 0 in a tick beside a gap that has few."""
        requests, first = window.requests, window.start_ns // self.tick_ns
        usual = np.median(np.concatenate([self.ring.requests[-USUAL_TICKS:], requests[requests > 0]]))
        before = len(self.ring.at) > 0 and int(self.ring.at[-1]) == first - 1
        there = np.concatenate([[before], requests > 0, [True]])
        edge = ~(there[:-2] & there[2:])
        return np.where(edge & (requests < usual * self.settings.edge_share), 0.0, requests)

    def _fit_if_due(self, past: int) -> None:
        state = self.state
        if self._base is not None and state.fitted is not None:
            due = past - state.fitted >= max(1, REFIT_SHARE * state.fitted_span) or self._left_out_differs()
            if not due:
                return
        self._fit(self.sample(past, self._first()), self.book.tracked)

    def _left_out_differs(self) -> bool:
        """True if incidents began, ended or were accepted since the baseline was learned."""

        def known(tracked: Iterable[Tracked]) -> list[object]:
            return [
                (one.incident.id, one.onset, one.resolved, one.incident.state == "accepted")
                for one in tracked
            ]

        return known(self.book.tracked) != known(self.state.fitted_tracked)

    def _fit(self, sample: Sample, tracked: Sequence[Tracked]) -> None:
        quiet = quiet_ticks(self.ring.at, tracked)
        base = fit(self.ring, quiet, sample, self.settings, self._anew)
        at = self.ring.at[quiet & sample.takes(self.ring.at) & (self.ring.at < sample.past)]
        instances = typical_instances(self.ring, at, self.settings, self._anew)
        base = replace(base, instances=instances)
        if self._base is not None and not base.groups:
            return  # no quiet tick is left: keep the old baseline
        nearer = 1.0 if self._base is None else base.nearer_than(self._base)
        self._ordinary.rescale(nearer)
        before, self._base = self._threshold, base
        self._threshold = log_threshold(base, self.tick_ns, self.settings) if base.groups else 0.0
        if before:
            self.evidence.rescale(self._threshold / before, nearer)
        update = {"fitted": sample.past, "fitted_span": sample.span, "fitted_tracked": tuple(tracked)}
        self.state = self.state.model_copy(update=update)
        self.evidence.grow(len(self.ring.names))

    def _restore(self) -> None:
        """Restore the baseline and the sums from the state."""
        self._restored = True
        if self.state.fitted is not None and len(self.ring.at):
            self._fit(self.sampled(self.state.fitted, 0), self.state.fitted_tracked)
        self.ring.name_there(one.name for one in self.state.sums)
        self.ring.name_there(name for one in self.book.open for name in one.series)
        self.evidence.restore(self.state.sums, self.ring.codes)

    # A tick

    def _tick(
        self,
        column: int,
        said: Mapping[int, Sequence[TickEvidence]],
        threshold: float,
        decided: Decided,
        suspended: bool,
        *,
        again: bool = False,
    ) -> int:
        """Process a tick, or (`again`) evidence that arrived for a tick later; returns the number of
        comparisons made.
        """
        ring, evidence, at = self.ring, self.evidence, int(self.ring.at[column])
        stretch = self._stretch(column)
        if stretch == at and not again:
            evidence.reset(at - 1)
        evidence.step(len(ring.names), said.get(at, ()))
        for ended in self.book.recover(evidence, ring.codes, at):
            evidence.reset(at, self._rows(ended.series))
            evidence.reset(at, np.flatnonzero(evidence.since < self._settled(ended.resolved, stretch)))
            if ended.incident.state == "accepted":
                self._begin_anew(ended)
        alarms = evidence.reached(threshold)
        alarms[self._reported()] = False
        for one in self.book.open:  # what begins with its end may be of its end
            alarms &= evidence.since >= self._settled(one.calm_from, stretch)
        hit = np.flatnonzero(alarms)
        self._drop_transient(at, threshold, decided)
        if not len(hit):
            return 0
        if suspended:
            evidence.drop(at, hit)
            return 0
        is_worth = evidence.size[hit] >= self._ordinary.worth(at)
        for row in hit[~is_worth].tolist():
            self._ordinary.add(int(evidence.since[row]), float(evidence.size[row]))
            self._withheld.add(ring.names[row])
        evidence.drop(at, hit[~is_worth & ~evidence.has_grown(self.settings.size_values)[hit]])
        # A candidate that could not be decided waits alone: new alarms have onsets of their own.
        due = hit[is_worth & (evidence.again[hit] <= at)].tolist()
        if not due:
            return 0
        ordered = sorted(due, key=lambda row: (-evidence.most[row], ring.names[row]))
        return self._candidate(np.array(ordered), at, threshold, decided)

    def _stretch(self, column: int) -> int:
        """First tick behind the last gap before a column."""
        at = self.ring.at[: column + 1]
        gaps = np.flatnonzero((np.diff(at) - 1) * self.tick_ns > STRETCH_NS)
        return int(at[gaps[-1] + 1]) if len(gaps) else int(at[0])

    def _settled(self, calm_from: int | None, stretch: int) -> int:
        """Tick from which an onset is no effect of an incident's end; 0 if the incident ended unseen, in a
        gap.
        """
        return 0 if calm_from is None or calm_from <= stretch else calm_from + self.settings.recovery_ticks

    def _candidate(self, hit: I8, at: int, threshold: float, decided: Decided) -> int:
        """Second stage: confirm or refute a candidate by a comparison."""
        ring, evidence = self.ring, self.evidence
        names = [ring.names[row] for row in hit.tolist()]
        onset = int(evidence.since[hit[0]])
        evidence.tried[hit] += 1
        found = self._compared(onset, at)
        point = ChangePoint(
            at_ns=(at + 1) * self.tick_ns,
            onset_ns=onset * self.tick_ns,
            series=names[0].text,
            log_evidence=float(evidence.most[hit[0]]),
            threshold=threshold,
            outcome=found.outcome,
            comparisons=int(evidence.tried[hit[0]]),
        )
        if worse := worse_of(found):
            point = point.model_copy(update={"headline": worse[0].title, "places": places_of(worse[0])})
        points = [point]
        if found.code == CHANGED:
            report = "" if found.report is None else self._keep(found.report)
            self._ordinary.drop_since(onset - self.settings.guard_ticks)
            first, later = split_by_onset(worse_of(found), (onset + 1) * self.tick_ns)
            points = [self._taken(replace(found, findings=tuple(first)), point, onset, at, names, report)]
            for began in [one.when.began for one in later if one.when and one.when.began][:1]:
                # Found by the comparison a series asked for, not by a series itself.
                after = point.model_copy(update={"onset_ns": began.at_ns, "log_evidence": 0.0})
                between = began.low_ns, began.high_ns
                rest = replace(found, findings=tuple(later))
                points.append(self._taken(rest, after, onset, at, names, report, began_ns=between))
        decided.change_points += points
        if found.code == UNSURE:
            wait = int(np.ceil((at + 1 - onset) * self.settings.again_share))
            with_it = evidence.rising(
                onset - self.settings.guard_ticks, threshold * self.settings.rising_share
            )
            evidence.again[np.union1d(hit, with_it)] = at + max(wait, 1)
            evidence.hold(hit, found.outcome == NOT_SURE)
        else:
            if found.code == UNCHANGED:
                self._ordinary.add(onset, float(evidence.size[hit].max()))
            evidence.drop(at, hit)
        return 1

    def _taken(
        self,
        found: Decision,
        point: ChangePoint,
        asked: int,
        at: int,
        names: Sequence[Name],
        report: str,
        *,
        began_ns: tuple[int, int] | None = None,
    ) -> ChangePoint:
        """Open or join an incident for a comparison's findings; returns the change point with its id.

        asked: onset of the series that asked for the comparison.
        """
        worse = worse_of(found)
        onset = point.onset_ns // self.tick_ns
        since = onset - self.settings.guard_ticks
        rising = self.evidence.rising(since, point.threshold * self.settings.rising_share)
        with_it = [self.ring.names[row] for row in rising.tolist()]
        incident = self.book.take(
            found, onset, at, names, with_it, report=report, began_ns=began_ns, asked=asked
        )
        return point.model_copy(
            update={
                "outcome": point.outcome if incident is not None else "better",
                "headline": worse[0].title if worse else "",
                "places": places_of(worse[0]) if worse else (),
                "incident": "" if incident is None else incident.id,
            }
        )

    def _drop_transient(self, at: int, threshold: float, decided: Decided) -> None:
        """Drop candidates that ended before a comparison could decide, and record a change point of each."""
        evidence = self.evidence
        over = np.flatnonzero((evidence.tried > 0) & (evidence.most <= 0))
        decided.change_points += [
            ChangePoint(
                at_ns=(at + 1) * self.tick_ns,
                onset_ns=int(evidence.since[row]) * self.tick_ns,
                series=self.ring.names[row].text,
                log_evidence=0.0,
                threshold=threshold,
                outcome="transient",
                comparisons=int(evidence.tried[row]),
            )
            for row in np.setdiff1d(over, self._reported()).tolist()
        ]
        evidence.tried[over] = evidence.again[over] = 0

    def _compared(self, onset: int, at: int) -> Decision:
        """Compare [onset, now) with an equally long quiet stretch before it (at least half as long), using
        earlier ticks as history.
        """
        settings = self.settings
        ticks = self.ring.at[self._needed(at)]
        before = ticks[(ticks < onset) & quiet_ticks(ticks, self.book.tracked)]
        if not len(before):
            return Decision(UNSURE, "cannot-tell")
        problem = ticks[(ticks >= onset) & (ticks <= at)]
        n = max(settings.reference_ticks, min(len(problem), len(before) // 2))
        reference, rest = before[-n:], before[:-n]
        history = self._same_hours(onset)
        if len(rest) >= settings.warm_ticks:
            history += self._windows_before(int(reference[0]), len(problem) * self.tick_ns)
        found = self.decide_by(self._ranges(reference), self._ranges(problem), joined(history))
        # It was selected because it is unusual: so the level is corrected for the number of stretches of this
        # length in the budget's time, and grows with the length.
        part = (at + 1 - onset) * self.tick_ns / settings.ns_a_false_alarm
        return sure_enough(found, settings.level_share * part)

    def _windows_before(self, tick: int, long_ns: int) -> list[Range]:
        """Quiet windows in the baseline's span before a tick, as history of a comparison.

        Evenly spaced where there are more than the comparison needs, in runs as long as the problem if enough
        runs remain as blocks.
        """
        every = self._windows_of((tick - self._span) * self.tick_ns, tick * self.tick_ns)
        quiet = self.quiet(every)
        stride = 1 << max(-(-len(quiet) // self.settings.history_windows) - 1, 0).bit_length()
        longest = max(min(long_ns // self._window_ns, self.settings.history_windows // LEAST_BLOCKS), 1)
        run = 1 << longest.bit_length() - 1
        return [one for one in quiet if one[0] // self._window_ns // run % stride == 0]

    def _same_hours(self, onset: int) -> list[Range]:
        """Quiet windows around the same time of day on the days before."""
        at, found = onset * self.tick_ns, list[Range]()
        around = max(_HOUR // 2, self._window_ns)
        for days in range(1, self.settings.season_days + 1):
            middle = at - days * NS_PER_DAY
            found += self._windows_of(middle - around, middle + around)
        return self.quiet(found)

    def _ranges(self, ticks: I8) -> list[Range]:
        return joined((int(at) * self.tick_ns, (int(at) + 1) * self.tick_ns) for at in ticks)

    def _reported(self) -> I8:
        """Rows of the series of open incidents."""
        return self._rows(name for one in self.book.open for name in one.series)

    def _rows(self, names: Iterable[Name]) -> I8:
        codes = self.ring.codes
        return np.array(sorted({codes[name] for name in names if name in codes}), dtype=np.int64)

    def _begin_anew(self, ended: Tracked) -> None:
        self._anew |= dict.fromkeys(ended.series, ended.onset)

    # Bookkeeping

    def _suspended(self, window: WindowTicks) -> str:
        if self._base is None or not self._base.groups:
            return LEARNING
        today = window.start_ns // NS_PER_DAY
        most = max([self._base.most_arrivals, *(n for day, n in self.state.peaks if day < today)])
        if most and float(window.requests.max(initial=0)) > self.settings.suspend_load * most:
            return LOAD
        return ""

    def _move_on(self, window: WindowTicks, suspended: str) -> None:
        end = window.start_ns + window.n_ticks * window.tick_ns
        now = end // self.tick_ns
        oldest = now - 2 * self._span
        # The next change may begin with a pool that is not over yet.
        open_since = self.evidence.oldest(latest=now - MOST_POOLED)
        self._ordinary.forget(now, open_since - self.settings.guard_ticks)
        self.state = self.state.model_copy(
            update={
                "through_ns": end,
                "suspended": suspended,
                "sums": tuple(self.evidence.kept(self.ring.names)),
                "peaks": self._peaks(window),
                "instances": tuple(self.ring.there.items()),
                "ordinary": self._ordinary.sizes,
            }
        )
        self._anew = {name: at for name, at in self._anew.items() if at >= oldest}
        self._forget(window)

    def _peaks(self, window: WindowTicks) -> tuple[tuple[int, float], ...]:
        """Peaks of the days that the season is learned from, this window included."""
        today, peaks = window.start_ns // NS_PER_DAY, dict(self.state.peaks)
        peaks[today] = max(peaks.get(today, 0.0), float(window.requests.max(initial=0)))
        oldest = today - max(self.settings.season_days, self.settings.baseline_ns // NS_PER_DAY)
        return tuple((day, most) for day, most in peaks.items() if day >= oldest)

    def _forget(self, window: WindowTicks) -> None:
        """Drop ticks and hours that no later window needs."""
        needed = self._needed(window.start_ns // self.tick_ns)
        self.ring.keep(needed, (window.start_ns - self.history_ns) // _HOUR)

    def _needed(self, now: int) -> B1:
        """[ticks of the ring] True where recent at tick `now`, or sampled."""
        at = self.ring.at
        sampled = self.sampled(now, self._first()).takes(at)
        needed: B1 = sampled | (at >= now - self.recent_ns // self.tick_ns)
        return needed

    def _first(self) -> int:
        """First tick of the earliest known hour."""
        return int(self.ring.hour[0]) * _HOUR // self.tick_ns
