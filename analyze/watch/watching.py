"""Watch a lake: decide its sealed windows in order, commit each decision, and notify.

Any number of processes may run; one is active at a time, by a lock in a folder or a lease in a bucket. If two
are active for a moment, the commit number decides which decision counts; decisions are deterministic, so both
are the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from typing import Literal

import numpy as np

from analyze.profile.stored import whole_windows
from analyze.refine.settings import RefineSettings
from analyze.report.gate import Outcome
from analyze.report.page import INDEX_LINK, render_html
from analyze.report.store import keep_report
from analyze.scope import LakePeriod, Lakes
from analyze.watch.baseline import Sample
from analyze.watch.candidates import Decided
from analyze.watch.decide import CHANGED, Comparer, Decide, Decision, Range
from analyze.watch.deployments import is_due, looked_at, noticed
from analyze.watch.detect import USUAL_TICKS
from analyze.watch.incidents import place_of
from analyze.watch.lane import WatchCommit, last_commit, publish, put_commit
from analyze.watch.series import Cut, WindowTicks, day_hours, tick_length, window_ticks
from analyze.watch.settings import WatchSettings
from analyze.watch.slow_lane import (
    DAY,
    SlowState,
    after,
    certain,
    compared_day,
    compared_week,
    days_of,
    level,
    week_of,
)
from analyze.watch.versions import Rollout, Versions
from analyze.watch.watcher import State, Watcher
from schemas.errors import NotFoundError, PeriodError
from schemas.incidents import Incident, Notify
from schemas.periods import Period, format_instant
from schemas.windows import NS_PER_MINUTE, Window
from stitch.lake.layout import LAKE_FILE
from stitch.lake.place import LakePlace, open_place
from stitch.lake.watch_files import TakenError, highest

_EVER = (-(2**63), 2**63 - 1)
_HOUR = 60 * NS_PER_MINUTE


@dataclass(slots=True)
class LakeWatch:
    """Watch of one lake, as run by this process."""

    lake: str
    settings: WatchSettings
    refine: RefineSettings
    owner: str
    created_by: str
    notify: Notify = lambda _: None
    dry_run: bool = False
    """True: decide and yield decisions, but commit and store nothing."""
    decide: Decide | None = None
    """Function that compares an alarm's time with the time before; None: `flowdiff compare`."""
    _place: LakePlace = field(init=False)
    _last: WatchCommit | None = field(init=False, default=None)
    _watcher: Watcher | None = field(init=False, default=None)
    _slow: SlowState = field(init=False, default_factory=SlowState)
    _versions: Versions = field(init=False, default_factory=Versions)
    _lakes: Lakes | None = field(init=False, default=None)
    _length: int = field(init=False, default=0)
    """Length of the lake's windows, ns."""
    _starts: list[int] = field(init=False, default_factory=list)
    """Starts of the lake's sealed windows, ns since the epoch, ascending."""

    def __post_init__(self) -> None:
        """Open the lake. Raises LakeError if there is none."""
        self._place = open_place(self.lake)

    @property
    def watcher(self) -> Watcher | None:
        """Watcher of the fast lane; None before the first window."""
        return self._watcher

    @property
    def state(self) -> State | None:
        """State of the lake's watch: the watcher's, else the state in the last commit; None before the first
        commit.
        """
        if self._watcher is not None:
            return self._watcher.state
        return None if self._last is None else self._last.state

    def silent_since(self, now_ns: int) -> int | None:
        """End of the last decided window, ns since the epoch, if it is more than `silent_windows` windows ago
        (no input, or sealing stalled); else None.
        """
        if self.state is None or not self._length:
            return None
        through_ns = self.state.through_ns
        is_silent = now_ns - through_ns > self.settings.silent_windows * self._length
        return through_ns if is_silent else None

    def resume(self) -> None:
        """Continue from the lake's last commit, no matter which process made it.

        Raises LakeError, OSError.
        """
        self._watcher = None
        self._last = last_commit(self._place.store)
        if self._last is None:
            self._slow, self._versions = SlowState(), Versions()
            return
        self._slow, self._versions = self._last.slow, self._last.versions
        if not self.dry_run:
            publish(self._place.store, self._last)
            self.notify(self._last.events)

    def rest(self) -> None:
        """Free all memory; `resume` continues from the lake's last commit."""
        self._watcher = self._last = None

    def poll(self) -> Iterator[Decided]:
        """Decide the windows sealed since the last call, one by one. Raises LakeError, TakenError, OSError.

        The first call decides nothing: all existing windows become the baseline.
        """
        if not self._look():
            return
        state = self.state
        if state is None:
            state = self._begun(self._starts[-1] + self._length)
            self._commit(state, Decided.nothing())
        for window in self._after(state.through_ns):
            if self._watcher is None:
                self._watcher = self._watching(state)
            decided = self._decided(self._watcher, window)
            if decided is not None:
                self._commit(self._watcher.state, decided)
                yield decided

    def replay(self, period: Period) -> Iterator[Decided]:
        """Yield the decisions that the watch would have made over a period, storing nothing. Raises
        PeriodError, LakeError."""
        self.dry_run = True
        if not self._look():
            raise PeriodError(f"The lake '{self.lake}' has no sealed window.")
        first = [start for start in self._starts if start >= period.start_ns]
        if not first:
            known = f"{format_instant(self._starts[0])}/{format_instant(self._starts[-1] + self._length)}"
            raise PeriodError(
                f"No sealed window of '{self.lake}' lies in {period.text}: its windows lie in {known}.",
                remedy="Name a part of that, or 'all'.",
            )
        self._last = None
        self._watcher = watcher = self._watching(self._begun(first[0]))
        for window in self._after(first[0]):
            if window.start_ns >= period.end_ns:
                return
            decided = self._decided(watcher, window)
            if decided is not None:
                yield decided

    # Windows

    def _look(self) -> bool:
        """Update the list of sealed windows, without reading their files; return False if there are none."""
        self._lakes = Lakes(self.lake)
        manifest = self._lakes.manifest(Period(None, *_EVER))
        self._length = manifest.info.window_length_ns
        self._starts = manifest.starts_ns().tolist()
        return bool(self._starts)

    def _after(self, ns: int) -> list[Window]:
        return [Window(start, self._length) for start in self._starts[bisect_left(self._starts, ns) :]]

    def _ranges(self, start_ns: int, end_ns: int) -> list[Range]:
        """[start, end) of the sealed windows that lie entirely in a range, ns since the epoch."""
        first, past = (
            bisect_left(self._starts, start_ns),
            bisect_left(self._starts, end_ns - self._length + 1),
        )
        return [(start, start + self._length) for start in self._starts[first:past]]

    def _here(self, window: Window) -> LakePeriod:
        assert self._lakes is not None
        (found,) = self._lakes.listed([(Period(None, window.start_ns, window.end_ns), [window])])
        return found

    # Decisions

    def _begun(self, through_ns: int) -> State:
        """Initial state of a watch that decides the windows after `through_ns`."""
        made = sha256(self._place.store.read(LAKE_FILE).to_pybytes() + str(self._starts[0]).encode())
        return State(
            lake_id=made.hexdigest()[:16],
            tick_ns=tick_length(self._length, self.settings.slot_ns),
            through_ns=through_ns,
            began_ns=through_ns,
        )

    def _watching(self, state: State) -> Watcher:
        """Make a Watcher that has learned from all windows before the end of `state`."""
        decide = self.decide or Comparer.of(self.lake, self.refine)
        watcher = Watcher(
            state,
            self.settings,
            decide,
            keep=self._keep,
            windows_of=self._ranges,
        )
        detector, tick_ns = watcher.detector, watcher.tick_ns
        first_ns, recent_ns = state.through_ns - detector.history_ns, state.through_ns - detector.recent_ns
        days = range(first_ns // DAY, recent_ns // DAY) if DAY % self._length == 0 else range(0)
        sample = detector.sampled(state.through_ns // tick_ns, self._starts[0] // _HOUR * _HOUR // tick_ns)
        for day in days:
            self._learn_day(watcher, day * DAY, sample)
        self._learn(watcher, days[-1] * DAY + DAY if days else first_ns, state.through_ns)
        return watcher

    def _learn(self, watcher: Watcher, start_ns: int, end_ns: int) -> None:
        for start, _ in self._ranges(start_ns, end_ns):
            ticks = self._ticks(watcher, start)
            if ticks is not None:
                watcher.learn(ticks)

    def _learn_day(self, watcher: Watcher, start_ns: int, sample: Sample) -> None:
        """Learn from one past day: its hourly sums, stored in one file, and the ticks of the day that
        `sample` takes."""
        assert self._lakes is not None
        windows = [Window(start, self._length) for start, _ in self._ranges(start_ns, start_ns + DAY)]
        if not windows:
            return
        (day,) = self._lakes.listed([(Period(None, start_ns, start_ns + DAY), windows)])
        watcher.detector.ring.add_hours(day_hours(day, whole_windows(day), self._cut(watcher)))
        for window in windows:
            # With some ticks before them, which give the usual number of requests.
            at = np.arange(window.start_ns, window.end_ns + USUAL_TICKS * watcher.tick_ns, watcher.tick_ns)
            if sample.takes(at // watcher.tick_ns).any():
                ticks = self._ticks(watcher, window.start_ns)
                if ticks is not None:
                    watcher.detector.add_ticks(ticks)

    def _ticks(self, watcher: Watcher, start_ns: int) -> WindowTicks | None:
        """Sums of a window's series by tick; None if it has no requests."""
        return window_ticks(self._here(Window(start_ns, self._length)), self._cut(watcher))

    def _cut(self, watcher: Watcher) -> Cut:
        return Cut(self.refine, watcher.tick_ns, self.settings.most_instances)

    def _decided(self, watcher: Watcher, window: Window) -> Decided | None:
        """Decide one window in all lanes; None if it has no requests."""
        ticks = self._ticks(watcher, window.start_ns)
        if ticks is None:
            return None
        decided = watcher.decide(ticks)
        self._slow_lane(watcher, window.end_ns)
        self._deployments(watcher, window)
        watcher.collect(decided)
        return decided

    def _slow_lane(self, watcher: Watcher, now_ns: int) -> None:
        """Compare the last complete day and the last complete week, unless that was done already."""
        slow = self._slow
        day, week = now_ns // DAY - 1, week_of(now_ns // DAY) - 1
        if self.settings.daily and slow.day is not None and day > slow.day:
            self._slow_look(watcher, "daily", [day], now_ns)
        if self.settings.weekly and slow.week is not None and week > slow.week:
            self._slow_look(watcher, "weekly", days_of(week), now_ns)
        self._slow = self._slow.model_copy(update={"day": day, "week": week})

    def _slow_look(
        self, watcher: Watcher, lane: Literal["daily", "weekly"], days: Sequence[int], now_ns: int
    ) -> None:
        compared = compared_day if lane == "daily" else compared_week
        found = compared(days[0], self._ranges, watcher.book.quiet, watcher.decide_by)
        if found is None:
            return
        name = "days" if lane == "daily" else "weeks"
        spent = getattr(self._slow, name)
        sure = certain(found, level(spent, self.settings.slow_false))
        self._slow = self._slow.model_copy(update={name: after(spent, sure.code == CHANGED)})
        at = now_ns // watcher.tick_ns - 1
        named = {place_of(finding) for finding in sure.findings}
        for one in watcher.book.open:
            if one.incident.lane == lane and not one.series and one.incident.component not in named:
                watcher.book.end(one.incident.id, at, "resolved", calm_from=days[0] * DAY // watcher.tick_ns)
        if sure.code == CHANGED and found.report is not None:
            began = days[0] * DAY, (days[-1] + 1) * DAY
            report = self._keep(found.report)
            watcher.book.take(
                sure, began[0] // watcher.tick_ns, at, (), lane=lane, report=report, began_ns=began
            )

    def _deployments(self, watcher: Watcher, window: Window) -> None:
        """Start observing versions that are new, make the comparisons that are due, and resolve incidents of
        versions that are gone."""
        key, before = self.settings.versions, self._versions
        self._versions = noticed(before, self._here(window), key, self.settings.gone_windows)
        for one in watcher.book.open:
            version = one.incident.version
            if not one.series and before.runs(version) and not self._versions.runs(version):
                watcher.book.end(one.incident.id, window.end_ns // watcher.tick_ns - 1, "resolved")
        going_on = []
        for rollout in self._versions.rollouts:
            looked = self._look_at(watcher, rollout, key, window) if is_due(rollout) else rollout
            if looked.looks < self.settings.looks:
                going_on.append(looked)
        self._versions = self._versions.model_copy(update={"rollouts": tuple(going_on)})

    def _look_at(self, watcher: Watcher, rollout: Rollout, key: str, window: Window) -> Rollout:
        during = self._ranges(rollout.start_ns, window.end_ns)
        as_long = (1 << self.settings.looks - 1) * self._length  # length of the last look
        before = watcher.book.quiet(self._ranges(rollout.start_ns - as_long, rollout.start_ns))
        found = looked_at(rollout, key, during, before, watcher.decide_by)
        at = window.end_ns // watcher.tick_ns - 1
        if found.code == CHANGED and found.report is not None:
            began = rollout.start_ns, rollout.start_ns + self._length
            watcher.book.take(
                found,
                began[0] // watcher.tick_ns,
                at,
                (),
                lane="deployment",
                report=self._keep(found.report),
                version=rollout.version,
                began_ns=began,
            )
        return rollout.model_copy(update={"looks": rollout.looks + 1})

    # Stored results

    def _keep(self, outcome: Outcome) -> str:
        """Store a report in the lake and return its id; empty in a dry run."""
        if self.dry_run:
            return ""
        keep_report(self._place, outcome, render_html(outcome.report, outcome.views, index=INDEX_LINK))
        return outcome.report.id

    def _commit(self, state: State, decided: Decided) -> None:
        settings = self.settings.model_dump(mode="json")
        last = self._last or WatchCommit(
            seq=highest(self._place.store),
            owner=self.owner,
            created_by=self.created_by,
            settings=settings,
            state=state,
        )
        commit = last.followed_by(
            decided,
            owner=self.owner,
            created_by=self.created_by,
            settings=settings,
            state=state,
            slow=self._slow,
            versions=self._versions,
        )
        if not self.dry_run:
            put_commit(self._place.store, commit)
            self.notify(commit.events)
        self._last = commit


def accepted(lake: str, id_: str, note: str, owner: str, created_by: str) -> Incident:
    """Accept an open incident as the new normal, and return it. Raises NotFoundError, TakenError.

    id_: the incident's id, or a unique prefix.
    """

    def commit(last: WatchCommit) -> WatchCommit:
        named = [one.incident for one in last.state.tracked if one.incident.id.startswith(id_)]
        mine = [incident for incident in named if incident.goes_on]
        if len(mine) != 1:
            raise NotFoundError(not_acceptable(id_, named), remedy="`flowdiff incidents` lists them.")
        settings = WatchSettings.model_validate(last.settings)
        watcher = Watcher(last.state, settings, _never)
        watcher.accept(mine[0].id, last.state.through_ns // last.state.tick_ns - 1, note)
        decided = Decided.nothing()
        watcher.collect(decided)
        return last.followed_by(decided, state=watcher.state, owner=owner, created_by=created_by)

    return _ordered(lake, commit).events[-1].incident


def not_acceptable(id_: str, named: Sequence[Incident]) -> str:
    """Sentence why `id_` does not name one open incident. named: incidents whose id begins with `id_`."""
    n_open = sum(incident.goes_on for incident in named)
    if n_open:
        return f"The ids of {n_open} open incidents begin with '{id_}'."
    if named:
        return f"{named[-1].id} is {named[-1].state}; only open ones can be accepted."
    return f"No open incident has an id that begins with '{id_}'."


def marked(lake: str, text: str, at_ns: int, owner: str, created_by: str) -> None:
    """Record that a deployment was made at `at_ns`, so that the time after it is compared with the time
    before. Raises as `accepted`."""
    rollout = Rollout(component="", version=text, start_ns=at_ns)

    def commit(last: WatchCommit) -> WatchCommit:
        versions = last.versions.model_copy(update={"rollouts": (*last.versions.rollouts, rollout)})
        return last.followed_by(Decided.nothing(), versions=versions, owner=owner, created_by=created_by)

    _ordered(lake, commit)


def _ordered(lake: str, commit: Callable[[WatchCommit], WatchCommit]) -> WatchCommit:
    """Commit a person's command on top of the lake's last commit.

    commit: makes the commit from the last one. If a running watch commits first, try again; the watch
    continues from this commit. Raises NotFoundError, TakenError, LakeError, OSError.
    """
    place = open_place(lake)
    for attempt in count(1):
        last = last_commit(place.store)
        if last is None:
            raise NotFoundError(f"Nobody watches '{lake}' yet.", remedy="Run `flowdiff watch` first.")
        made = commit(last)
        try:
            publish(place.store, last)
            put_commit(place.store, made)
        except TakenError:
            if attempt >= WatchSettings.model_validate(last.settings).order_attempts:
                raise
        else:
            return made
    raise AssertionError("an attempt returns or raises")


def _never(*_: object, **__: object) -> Decision:
    raise AssertionError("nothing is compared here")
