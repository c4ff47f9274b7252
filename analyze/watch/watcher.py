"""Fast lane of the watch: for each sealed window, in order, decides which incidents open, change or end.

The first stage sums evidence over series (`detect`), the second makes comparisons for series that alarmed
(`candidates`, `confirm`). Decisions depend on windows, settings and version only. All state is in `State`,
from which another process continues exactly as this one would have.
"""

from __future__ import annotations

import time
from typing import Final

from analyze.watch.baseline import MOST_POOLED
from analyze.watch.candidates import Candidates, Decided, KeepReport
from analyze.watch.confirm import Confirmation, WindowsOf
from analyze.watch.decide import Decide
from analyze.watch.detect import Detector, Fitted
from analyze.watch.evidence import Kept
from analyze.watch.incidents import Book, Tracked
from analyze.watch.ordinary import Ordinary
from analyze.watch.series import Name, Seen, WindowTicks
from analyze.watch.settings import WatchSettings
from schemas.config import Config
from schemas.incidents import Incident
from schemas.watch_tables import WatchRun
from schemas.windows import NS_PER_DAY

LEARNING: Final = "learning"
LOAD: Final = "load"


class State(Config):
    """State of a watch: all that a restart needs beside the lake's windows."""

    lake_id: str
    tick_ns: int
    through_ns: int
    """Windows that end at or before this time, ns since the epoch, are decided."""
    began_ns: int = 0
    """Time at which the watch began to decide windows, ns since the epoch."""
    suspended: str = LEARNING
    """Reason why nothing could be detected in the last window (learning, load); empty if it was watched."""
    sums: tuple[Kept, ...] = ()
    tracked: tuple[Tracked, ...] = ()
    fitted: int | None = None
    """End, exclusive, of the ticks that the current baseline was learned from; None without a baseline."""
    fitted_span: int = 1
    """Number of ticks that the current baseline spans."""
    fitted_tracked: tuple[Tracked, ...] = ()
    """Incidents whose ticks the current baseline leaves out."""
    anew: tuple[tuple[Name, int], ...] = ()
    """(Series, first tick of its normal behaviour) after accepted changes; earlier values are ignored."""
    ordinary: tuple[tuple[int, float], ...] = ()
    """(Onset tick, size) of changes that were refuted or too small to compare; sizes in large steps."""
    instances: tuple[tuple[Name, Seen], ...] | None = None
    """(Instance, presence) of the instances that are not gone; None before instances were first looked
    for.
    """
    peaks: tuple[tuple[int, float], ...] = ()
    """(Day since the epoch, requests in its busiest tick), as a baseline samples only a part of the ticks."""


class Watcher:
    """Fast lane of the watch: decides the windows of a lake in order."""

    def __init__(
        self,
        state: State,
        settings: WatchSettings,
        decide: Decide,
        *,
        keep: KeepReport = lambda _: "",
        windows_of: WindowsOf = lambda *_: (),
    ) -> None:
        """windows_of: lists sealed windows, for histories longer than the ring buffer; keep: stores a
        report."""
        self.settings = settings
        self.state = state
        fitted = state.fitted
        self.detector = Detector(
            state.tick_ns,
            settings,
            None if fitted is None else Fitted(fitted, state.fitted_span, state.fitted_tracked),
            dict(state.anew),
        )
        if state.instances is not None:
            ring = self.detector.ring
            ring.there, ring.there_at = dict(state.instances), state.through_ns // state.tick_ns
        self.book = Book(state.lake_id, state.tick_ns, settings, state.tracked)
        self._ordinary = Ordinary(state.ordinary, settings, state.tick_ns, state.began_ns)
        self.confirmation = Confirmation(self.detector, self.book, settings, decide, windows_of)
        self._candidates = Candidates(
            self.detector, self.book, self._ordinary, self.confirmation, settings, keep
        )
        self._restored = False

    @property
    def tick_ns(self) -> int:
        """Length of a tick, ns."""
        return self.state.tick_ns

    @property
    def decide_by(self) -> Decide:
        """Function that compares a candidate's time with the time before it."""
        return self.confirmation.decide_by

    def learn(self, window: WindowTicks) -> None:
        """Add a window to the baseline's data without deciding it: it was decided before, or precedes the
        watch."""
        self.detector.add(window)
        self.detector.forget(window)

    def decide(self, window: WindowTicks) -> Decided:
        """Decide the next sealed window, update `state`, and return the decision."""
        began, detector, candidates = time.perf_counter(), self.detector, self._candidates
        if not self._restored:
            self._restore()
        columns = detector.add(window)
        self.confirmation.window_ns = window.n_ticks * window.tick_ns
        first = window.start_ns // self.tick_ns
        nearer = detector.fit_if_due(first - self.settings.guard_ticks, self.book.tracked)
        self._ordinary.rescale(nearer)
        decided = Decided(None)
        suspended = self._suspended(window)
        comparisons = 0
        candidates.withheld.clear()
        if not detector.is_learning:
            said = detector.evidence_in(window)
            last = len(detector.ring.at) - len(columns) - 1
            # A pool may end in this window without a request in it.
            if last >= 0 and int(detector.ring.at[last]) in said:
                comparisons += candidates.tick(last, said, decided, bool(suspended), again=True)
            for column in columns:
                comparisons += candidates.tick(int(column), said, decided, bool(suspended))
        self.book.forget(first)
        base = detector.base
        decided.run = WatchRun(
            window_ns=window.start_ns,
            through_ns=window.start_ns + window.n_ticks * window.tick_ns,
            requests=int(window.requests.sum()),
            ticks=window.n_ticks,
            threshold=detector.threshold,
            candidates=sum(one.comparisons == 1 and bool(one.log_evidence) for one in decided.change_points),
            comparisons=comparisons,
            withheld=len(candidates.withheld),
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
        """Move the events that incidents have collected into `decided`, and update `state`."""
        decided.events += self.book.events
        self.book.events = []
        if decided.run is not None:
            decided.run = decided.run.model_copy(update={"open_incidents": len(self.book.open)})
        anew = tuple(sorted(self.detector.anew.items()))
        self.state = self.state.model_copy(update={"tracked": tuple(self.book.tracked), "anew": anew})

    def accept(self, id_: str, at: int, note: str = "") -> Incident | None:
        """Accept an open incident as the new normal; None if no open incident has this id."""
        ended = self.book.end(id_, at, "accepted", note)
        if ended is None:
            return None
        self.detector.begin_anew(ended)
        return ended.incident

    def _restore(self) -> None:
        """Restore the baseline and the sums of evidence from `state`."""
        self._restored = True
        detector, fitted = self.detector, self.detector.fitted
        if fitted is not None and len(detector.ring.at):
            self._ordinary.rescale(detector.fit(detector.sampled(fitted.past, 0), fitted.tracked))
        detector.ring.name_there(one.name for one in self.state.sums)
        detector.ring.name_there(name for one in self.book.open for name in one.series)
        detector.evidence.restore(self.state.sums, detector.ring.codes)

    def _suspended(self, window: WindowTicks) -> str:
        base = self.detector.base
        if base is None or self.detector.is_learning:
            return LEARNING
        today = window.start_ns // NS_PER_DAY
        most = max([base.most_arrivals, *(n for day, n in self.state.peaks if day < today)])
        if most and float(window.requests.max(initial=0)) > self.settings.suspend_load * most:
            return LOAD
        return ""

    def _move_on(self, window: WindowTicks, suspended: str) -> None:
        detector, fitted = self.detector, self.detector.fitted
        end = window.start_ns + window.n_ticks * window.tick_ns
        now = end // self.tick_ns
        # The next change may begin with a pool that is not over yet.
        open_since = detector.evidence.oldest(latest=now - MOST_POOLED)
        self._ordinary.forget(now, open_since - self.settings.guard_ticks)
        update: dict[str, object] = {
            "through_ns": end,
            "suspended": suspended,
            "sums": tuple(detector.evidence.kept(detector.ring.names)),
            "peaks": self._peaks(window),
            "instances": tuple(detector.ring.there.items()),
            "ordinary": self._ordinary.sizes,
        }
        if fitted is not None:
            update |= {"fitted": fitted.past, "fitted_span": fitted.span, "fitted_tracked": fitted.tracked}
        self.state = self.state.model_copy(update=update)
        detector.forget(window)

    def _peaks(self, window: WindowTicks) -> tuple[tuple[int, float], ...]:
        """(Day since the epoch, number of requests in its busiest tick) for each day from which the daily
        cycle is learned, the window's day included.
        """
        today, peaks = window.start_ns // NS_PER_DAY, dict(self.state.peaks)
        peaks[today] = max(peaks.get(today, 0.0), float(window.requests.max(initial=0)))
        oldest = today - max(self.settings.season_days, self.settings.baseline_ns // NS_PER_DAY)
        return tuple((day, most) for day, most in peaks.items() if day >= oldest)
