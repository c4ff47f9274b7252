"""Candidates of the watch: series whose evidence passed the threshold, to be confirmed or refuted by a
comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from analyze.report.gate import Outcome
from analyze.watch.confirm import Confirmation
from analyze.watch.decide import CHANGED, NOT_SURE, UNCHANGED, UNSURE, Decision
from analyze.watch.detect import Detector
from analyze.watch.evidence import TickEvidence
from analyze.watch.incidents import Book, places_of, split_by_onset, worse_of
from analyze.watch.ordinary import Ordinary
from analyze.watch.series import Name
from analyze.watch.settings import WatchSettings
from schemas.arrays import I8
from schemas.incidents import IncidentEvent
from schemas.watch_tables import ChangePoint, WatchRun


@dataclass(slots=True)
class Decided:
    """Result of deciding one window: row for the tables, events of incidents, change points."""

    run: WatchRun | None
    """Row for `watch_runs`; None at the start of a watch and for a person's command."""
    events: list[IncidentEvent] = field(default_factory=list)
    change_points: list[ChangePoint] = field(default_factory=list)

    @classmethod
    def nothing(cls) -> Decided:
        """Empty decision: no window was decided."""
        return cls(None)


KeepReport = Callable[[Outcome], str]
"""Function that stores a report and returns the report's id; empty text if it stores none."""


class Candidates:
    """Series that alarm, followed tick by tick; a candidate that a comparison confirms opens or joins an
    incident.
    """

    def __init__(
        self,
        detector: Detector,
        book: Book,
        ordinary: Ordinary,
        confirmation: Confirmation,
        settings: WatchSettings,
        keep: KeepReport,
    ) -> None:
        self._detector = detector
        self._book = book
        self._ordinary = ordinary
        self._confirmation = confirmation
        self._settings = settings
        self._keep = keep
        self.withheld = set[Name]()
        """Series whose evidence passed the threshold in the last window, but whose change was too small for a
        comparison."""

    def tick(
        self,
        column: int,
        said: Mapping[int, Sequence[TickEvidence]],
        decided: Decided,
        suspended: bool,
        *,
        again: bool = False,
    ) -> int:
        """Process one tick, and return the number of comparisons made.

        column: index of the tick in the ring buffer; said: tick -> evidence of that tick; again: True for a
        tick that was processed before, whose evidence was completed by this window.
        """
        ring, evidence, threshold = self._detector.ring, self._detector.evidence, self._detector.threshold
        at = int(ring.at[column])
        stretch = self._detector.stretch(column)
        if stretch == at and not again:
            evidence.reset(at - 1)
        evidence.step(len(ring.names), said.get(at, ()))
        for ended in self._book.recover(evidence, ring.codes, at):
            evidence.reset(at, self._detector.rows(ended.series))
            evidence.reset(at, np.flatnonzero(evidence.since < self._settled(ended.resolved, stretch)))
            if ended.incident.state == "accepted":
                self._detector.begin_anew(ended)
        alarms = evidence.reached(threshold)
        alarms[self._reported()] = False
        for one in self._book.open:  # what begins with its end may be of its end
            alarms &= evidence.since >= self._settled(one.calm_from, stretch)
        hit = np.flatnonzero(alarms)
        self._drop_transient(at, decided)
        if not len(hit):
            return 0
        if suspended:
            evidence.drop(at, hit)
            return 0
        is_worth = evidence.size[hit] >= self._ordinary.worth(at)
        for row in hit[~is_worth].tolist():
            self._ordinary.add(int(evidence.since[row]), float(evidence.size[row]))
            self.withheld.add(ring.names[row])
        evidence.drop(at, hit[~is_worth & ~evidence.has_grown(self._settings.size_values)[hit]])
        # A candidate that could not be decided waits alone: new alarms have onsets of their own.
        due = hit[is_worth & (evidence.again[hit] <= at)].tolist()
        if not due:
            return 0
        ordered = sorted(due, key=lambda row: (-evidence.most[row], ring.names[row]))
        return self._candidate(np.array(ordered), at, decided)

    def _settled(self, calm_from: int | None, stretch: int) -> int:
        """First tick at which a change can begin that is not the end of an incident.

        calm_from: first calm tick of the incident; stretch: first tick after the last gap. 0 if the calm
        began before the gap.
        """
        return 0 if calm_from is None or calm_from <= stretch else calm_from + self._settings.recovery_ticks

    def _candidate(self, hit: I8, at: int, decided: Decided) -> int:
        """Compare the time since a candidate's onset with the time before; return the number of comparisons,
        1.

        hit: numbers of the series that alarm, strongest first. A confirmed change becomes an incident; an
        undecided one is compared again later.
        """
        ring, evidence, threshold = self._detector.ring, self._detector.evidence, self._detector.threshold
        names = [ring.names[row] for row in hit.tolist()]
        onset = int(evidence.since[hit[0]])
        evidence.tried[hit] += 1
        found = self._confirmation.compared(onset, at)
        point = ChangePoint(
            at_ns=(at + 1) * self._detector.tick_ns,
            onset_ns=onset * self._detector.tick_ns,
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
            self._ordinary.drop_since(onset - self._settings.guard_ticks)
            first, later = split_by_onset(worse_of(found), (onset + 1) * self._detector.tick_ns)
            points = [self._taken(replace(found, findings=tuple(first)), point, onset, at, names, report)]
            for began in [one.when.began for one in later if one.when and one.when.began][:1]:
                # Found by the comparison a series asked for, not by a series itself.
                after = point.model_copy(update={"onset_ns": began.at_ns, "log_evidence": 0.0})
                between = began.low_ns, began.high_ns
                rest = replace(found, findings=tuple(later))
                points.append(self._taken(rest, after, onset, at, names, report, began_ns=between))
        decided.change_points += points
        if found.code == UNSURE:
            wait = int(np.ceil((at + 1 - onset) * self._settings.again_share))
            with_it = evidence.rising(
                onset - self._settings.guard_ticks, threshold * self._settings.rising_share
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
        """Open or join an incident for a comparison's findings; return `point` completed by the incident's
        id.

        found: the comparison's result; asked: onset tick of the series that triggered the comparison;
        began_ns: interval of the start of the change, if the comparison found it.
        """
        worse = worse_of(found)
        onset = point.onset_ns // self._detector.tick_ns
        since = onset - self._settings.guard_ticks
        rising = self._detector.evidence.rising(since, point.threshold * self._settings.rising_share)
        with_it = [self._detector.ring.names[row] for row in rising.tolist()]
        incident = self._book.take(
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

    def _drop_transient(self, at: int, decided: Decided) -> None:
        """Drop candidates whose evidence vanished before a comparison could decide; record a change point for
        each.
        """
        evidence = self._detector.evidence
        over = np.flatnonzero((evidence.tried > 0) & (evidence.most <= 0))
        decided.change_points += [
            ChangePoint(
                at_ns=(at + 1) * self._detector.tick_ns,
                onset_ns=int(evidence.since[row]) * self._detector.tick_ns,
                series=self._detector.ring.names[row].text,
                log_evidence=0.0,
                threshold=self._detector.threshold,
                outcome="transient",
                comparisons=int(evidence.tried[row]),
            )
            for row in np.setdiff1d(over, self._reported()).tolist()
        ]
        evidence.tried[over] = evidence.again[over] = 0

    def _reported(self) -> I8:
        """Numbers, in the ring buffer, of the series of open incidents: they trigger no comparison."""
        return self._detector.rows(name for one in self._book.open for name in one.series)
