"""Life cycle of incidents: a finding opens one, later findings at the same place join it, a run of calm ticks
ends it.

An incident is identified by place and kind, never by a number. The place is the callee if the finding names a
call, else the component that does the work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal

import numpy as np

from analyze.watch.decide import Decision, Range
from analyze.watch.evidence import RunningEvidence
from analyze.watch.series import INSTANCES, Name
from analyze.watch.settings import WatchSettings
from schemas.arrays import B1, I8
from schemas.config import Config
from schemas.incidents import (
    EventKind,
    Incident,
    IncidentEvent,
    IncidentExamples,
    IncidentState,
    LaneName,
    Severity,
    event_of,
    incident_id,
)
from schemas.report.findings import ERROR_KINDS, TIME_KINDS, ChangeKind, Finding
from schemas.windows import NS_PER_DAY, NS_PER_SECOND

RECENT_NS: Final = 28 * NS_PER_DAY
"""Length of time, ns, for which an incident counts as recent; the daily and weekly comparisons ignore
repetitions of incidents accepted within it."""
_EVIDENCE_KEPT: Final = 5


class Tracked(Config):
    """An incident, and the state needed to follow it; times are ticks, numbered from the epoch."""

    incident: Incident
    series: tuple[Name, ...]
    """Series whose alarms led to the incident; they trigger no further comparison while it is open."""
    onset: int
    took: int = 1
    """Number of ticks from the incident's onset to its detection; to be resolved, it must be calm equally
    long.
    """
    calm: int = 0
    """Number of consecutive calm values up to now."""
    calm_from: int | None = None
    """First tick of the current run of calm values; None if the last value was not calm."""
    resolved: int | None = None
    loud: tuple[tuple[int, int], ...] = ()
    """(First tick, end) of the incident's earlier episodes, end exclusive: excluded from normal times."""
    places: tuple[str, ...] = ()
    """Places that the incident's findings named; the first one identifies the incident."""

    @property
    def goes_on(self) -> bool:
        """True while the incident is open."""
        return self.incident.goes_on


def place_of(finding: Finding) -> str:
    """Component that an incident is filed under: the callee if the finding names a call, else the component
    that does the work."""
    _, arrow, callee = finding.site.operation.partition(" -> ")
    return callee if arrow else finding.site.component


def places_of(finding: Finding) -> tuple[str, ...]:
    """Components that a finding names: the callee, the component, the suspect."""
    return tuple(dict.fromkeys(filter(None, (place_of(finding), finding.site.component, finding.suspect))))


def worse_of(decision: Decision) -> list[Finding]:
    """Regressions among a decision's findings, the most important first."""
    return [finding for finding in decision.findings if not finding.is_better]


def split_by_onset(worse: Sequence[Finding], by_ns: int) -> tuple[list[Finding], list[Finding]]:
    """Split findings into two lists: (those whose onset interval begins by `by_ns`, or overlaps the interval
    of such a finding; all others).

    Findings without an onset belong to the first list. If no finding reaches back, all belong to the first
    list.
    """
    began = [None if finding.when is None else finding.when.began for finding in worse]
    by_then = max((at.high_ns for at in began if at is not None and at.low_ns <= by_ns), default=by_ns)
    is_later = [at is not None and at.low_ns > max(by_then, by_ns) for at in began]
    if all(is_later):
        return [*worse], []
    first, later = (
        [f for f, is_ in zip(worse, is_later, strict=True) if is_ is which] for which in (False, True)
    )
    return first, later


def quiet_ticks(
    at: I8, tracked: Iterable[Tracked], *, length: I8 | int = 1, small: Collection[LaneName] = ()
) -> B1:
    """bool[len(at)]: True where none of the `length` ticks from tick `at` on lies in an incident.

    Incidents without a series of the fast lane are small enough to count as normal, except those of the lanes
    in `small`. Accepted incidents count as normal, too.
    """
    quiet = np.ones(len(at), dtype=np.bool_)
    for one in tracked:
        if one.incident.state == "accepted" or not (one.series or one.incident.lane in small):
            continue
        for first, past in (*one.loud, (one.onset, one.resolved)):
            quiet &= (at + length <= first) | (at >= past if past is not None else False)
    return quiet


class Book:
    """Incidents of a lake, and the operations that open, join, end and forget them."""

    def __init__(self, lake_id: str, tick_ns: int, settings: WatchSettings, known: Sequence[Tracked]) -> None:
        self._lake_id = lake_id
        self._tick_ns = tick_ns
        self._settings = settings
        self.tracked = list(known)
        self.events: list[IncidentEvent] = []

    @property
    def open(self) -> list[Tracked]:
        """Incidents that are open, in order of opening."""
        return [one for one in self.tracked if one.goes_on]

    def quiet(self, ranges: Sequence[Range], *, small: Collection[LaneName] = ()) -> list[Range]:
        """Ranges of time, out of `ranges`, that overlap no incident of the fast lane nor of the lanes in
        `small`."""
        start, end = np.array(ranges, dtype=np.int64).reshape(-1, 2).T // self._tick_ns
        length = np.maximum(end - start, 1)
        are_quiet = quiet_ticks(start, self.tracked, length=length, small=small).tolist()
        return [range_ for range_, is_quiet in zip(ranges, are_quiet, strict=True) if is_quiet]

    def take(
        self,
        decision: Decision,
        onset: int,
        at: int,
        hit: Sequence[Name],
        with_it: Sequence[Name] = (),
        *,
        lane: LaneName = "fast",
        report: str = "",
        version: str = "",
        began_ns: tuple[int, int] | None = None,
        asked: int | None = None,
    ) -> Incident | None:
        """Join findings to the open or recently resolved incident at their place; without one, open an
        incident.

        Returns None if nothing got worse. onset, at: ticks of the onset and of the detection. hit: series
        that alarmed, strongest first. with_it: series that rose since the onset. began_ns: interval of the
        start, if not around the onset; asked: onset of the series that triggered the comparison, from which
        the id is derived.
        """
        worse = [finding for finding in worse_of(decision) if not self._is_accepted(finding, onset, lane)]
        if not worse:
            return None
        first = worse[0]
        there = place_of(first)
        places = tuple(dict.fromkeys(place_of(finding) for finding in worse))
        mine = tuple({*(name for name in hit if there in name.places), *with_it}) or tuple(hit)
        place = next(
            (n for n in range(len(self.tracked) - 1, -1, -1) if self._joins(self.tracked[n], there, at)),
            None,
        )
        if place is None:
            began = began_ns or ((onset - 1) * self._tick_ns, (onset + 1) * self._tick_ns)
            told_ns = began[1] if asked is None else (asked + 1) * self._tick_ns
            id_ = incident_id(self._lake_id, _family(first.kind), "worse", there)
            known: dict[str, object] = {
                "id": f"{id_}-{told_ns // NS_PER_SECOND}",
                "direction": "worse",
                "lane": lane,
                "state": "open",
                "began_from_ns": began[0],
                "began_to_ns": began[1],
                "opened_ns": self._end_ns(at),
                "changed_ns": self._end_ns(at),
                "also": tuple(finding.title for finding in worse[1 : _EVIDENCE_KEPT + 1]),
                "version": version,
            }
            incident = Incident.model_validate({**known, **_facts(decision, first, report, self._settings)})
            took = at + 1 - onset if lane == "fast" else 1
            self.tracked.append(
                Tracked(incident=incident, series=tuple(sorted(mine)), onset=onset, took=took, places=places)
            )
            self._say("opened", len(self.tracked) - 1, "open", at)
            return self.tracked[-1].incident
        self._join(place, decision, first, mine, places, onset, at, report, version)
        return self.tracked[place].incident

    def _join(
        self,
        place: int,
        decision: Decision,
        first: Finding,
        mine: tuple[Name, ...],
        places: tuple[str, ...],
        onset: int,
        at: int,
        report: str,
        version: str,
    ) -> None:
        old = self.tracked[place]
        again = not old.goes_on
        grew = abs(first.contribution_us) > abs(old.incident.contribution_us) * (1 + self._settings.worse_by)
        named = tuple(dict.fromkeys((*old.places, *places)))
        spread = len(named) > len(old.places)
        # Keep the facts of the largest report.
        report = report or old.incident.report
        changed = _facts(decision, first, report, self._settings) if again or grew else {}
        named_version = version if not old.incident.version else ""
        if named_version:
            changed["version"] = named_version
        changed |= {"looks": old.incident.looks + 1, "series": _texts((*old.series, *mine))}
        series = tuple(sorted({*old.series, *mine}))
        self._change(place, changed, calm=0, calm_from=None, series=series, resolved=None)
        if again:
            self._change(place, onset=onset, loud=(*old.loud, (old.onset, old.resolved or at)))
        state: IncidentState = "worse" if grew else "spread" if spread else "open"
        if again:
            self._say("opened", place, "open", at)
        elif state != "open" or named_version:
            self._say("changed", place, state if state != "open" else old.incident.state, at)

    def recover(self, evidence: RunningEvidence, codes: dict[Name, int], at: int) -> list[Tracked]:
        """Count calm ticks of the open incidents; return the incidents that end with tick `at`."""
        over, settings = list[Tracked](), self._settings
        for place, one in enumerate(self.tracked):
            if not one.goes_on:
                continue
            # A finding of a slower lane began long before it was reported.
            since_ns = max(one.onset * self._tick_ns, one.incident.opened_ns)
            if self._end_ns(at) - since_ns >= settings.accept_ns:
                over.append(self._end(place, at + 1, at, "accepted"))
                continue
            # An instance that is gone is calm.
            z = np.array(
                [
                    evidence.z[codes[name]] if name in codes else 0.0
                    for name in one.series
                    if name in codes or name.kind in INSTANCES
                ]
            )
            z = z[np.isfinite(z)]
            if not len(z):
                continue
            is_calm = float(np.mean(np.abs(z) < settings.calm_deviations)) >= settings.calm_share
            calm = one.calm + 1 if is_calm else 0
            since = None if not calm else at if one.calm_from is None else one.calm_from
            self._change(place, calm=calm, calm_from=since)
            if since is None or at + 1 - since < one.took:
                continue
            if calm >= settings.recovery_ticks:
                over.append(self._end(place, since, at, "resolved"))
        return over

    def end(
        self,
        id_: str,
        at: int,
        state: Literal["resolved", "accepted"],
        note: str = "",
        calm_from: int | None = None,
    ) -> Tracked | None:
        """End an incident at tick `at`, or as of tick `calm_from`; None if no open incident has this id."""
        for place, one in enumerate(self.tracked):
            if one.incident.id == id_ and one.goes_on:
                self._change(place, {"note": note})
                return self._end(place, at + 1 if calm_from is None else calm_from, at, state)
        return None

    def forget(self, at: int) -> None:
        """Drop incidents that no decision after tick `at` needs; the tables of the lake keep them."""
        before = at - max(2 * self._settings.baseline_ns, RECENT_NS) // self._tick_ns
        self.tracked = [
            one for one in self.tracked if one.goes_on or one.resolved is None or one.resolved >= before
        ]

    def _end(self, place: int, resolved: int, at: int, state: IncidentState) -> Tracked:
        self._change(place, {"resolved_ns": resolved * self._tick_ns}, resolved=resolved, calm_from=None)
        self._say("resolved", place, state, at)
        return self.tracked[place]

    def _change(self, place: int, incident: Mapping[str, object] | None = None, **tracked: object) -> None:
        """Update fields of the incident at index `place`, and of its tracked state."""
        old = self.tracked[place]
        changed = old.incident.model_copy(update=incident or {})
        self.tracked[place] = old.model_copy(update={**tracked, "incident": changed})

    def _say(self, kind: EventKind, place: int, state: IncidentState, at: int) -> None:
        end = self._end_ns(at)
        recent = sum(one.incident.opened_ns > end - RECENT_NS for one in self.tracked)
        update: dict[str, object] = {"state": state, "changed_ns": end, "recent": recent}
        if kind != "resolved":
            update["resolved_ns"] = None
        self._change(place, update)
        self.events.append(event_of(kind, self.tracked[place].incident, end))

    def _end_ns(self, at: int) -> int:
        return (at + 1) * self._tick_ns

    def _joins(self, one: Tracked, there: str, at: int) -> bool:
        if one.places[:1] != (there,) or one.incident.state == "accepted":
            return False
        return one.goes_on or (at - (one.resolved or 0)) * self._tick_ns <= self._settings.reopen_ns

    def _is_accepted(self, finding: Finding, onset: int, lane: LaneName) -> bool:
        """True if the finding repeats an accepted incident and its reference predates the acceptance."""
        slow = lane in ("daily", "weekly")
        reach = (RECENT_NS if slow else self._settings.baseline_ns) // self._tick_ns
        return any(
            one.incident.state == "accepted"
            and place_of(finding) in one.places
            and onset - (one.resolved or 0) < reach
            for one in self.tracked
        )


def _facts(decision: Decision, first: Finding, report: str, settings: WatchSettings) -> dict[str, object]:
    """Values of the fields of an incident that derive from its finding `first`: field -> value."""
    by_sample = {
        sample: tuple(example.request_id for example in first.examples if example.sample == sample)
        for sample in ("reference", "problem")
    }
    root = first.members[0].root if len({member.root for member in first.members}) == 1 else ""
    hosts = [factor.value for factor in first.factors if factor.attribute.startswith("host of ")]
    plain = first.model_copy(
        update={
            "histogram": None,
            "account": None,
            "explanation": None,
            "members": (),
            "views": (),
            "evidence": first.evidence[:_EVIDENCE_KEPT],
        }
    )
    return {
        "kind": first.kind,
        "component": place_of(first),
        "operation": first.site.operation,
        "root": root,
        "host": hosts[0] if len(hosts) == 1 else "",
        "severity": _severity(decision, first, settings),
        "headline": first.title,
        "before": first.before,
        "after": first.after,
        "unit": first.unit,
        "interval": first.change,
        "contribution_us": first.contribution_us,
        "share_of_change": first.share_estimate,
        "finding": plain,
        "examples": IncidentExamples(**by_sample),
        "report": report,
    }


def _family(kind: ChangeKind) -> str:
    if kind in ERROR_KINDS:
        return "errors"
    return "time" if kind in TIME_KINDS else "path"


def _severity(decision: Decision, finding: Finding, settings: WatchSettings) -> Severity:
    more_failing = finding.share1 - finding.share0 if finding.kind in ERROR_KINDS else 0.0
    slow_us = settings.critical_slower * decision.mean_us
    is_slow = slow_us > 0 and finding.contribution_us >= slow_us
    return "critical" if is_slow or more_failing >= settings.critical_failing else "warning"


def _texts(names: Iterable[Name]) -> tuple[str, ...]:
    return tuple(sorted({name.text for name in names}))
