"""Incidents: what `flowdiff watch` found in a lake, each cause once, and what happened to it.

The watcher decides window by window (`analyze.watch`) and keeps what it decided as commits of a lane of its
own in the lake. A commit is a function of sealed windows, settings and version. So are the ids made here,
which is why a restart, or another process that takes over, says the same again and nothing else.

The seam to whoever reports incidents (gauges, alerts, messages, log events) is one callable:

    Notify = Callable[[Sequence[IncidentEvent]], None]

The watcher calls it after each commit with the events of that commit, oldest first, and once more when it
starts with the events of the lake's last commit, as the process before it may have died between commit and
call. So it is called at least once an event, and who sends remembers `IncidentEvent.id`. It must return
soon (queue, do not wait for a receiver) and must not raise: the commit stands already. With no event it is
called too, so that what repeats itself (an alert that is sent again while its incident is open) has a beat,
once a decided window.

Who only reads incidents asks `analyze.watch.lane.incidents_of(store)`: all that the lake knows, open ones
first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Final, Literal

from pydantic import Field

from schemas.config import Config
from schemas.report.findings import ChangeKind, Finding, Interval, Unit

Direction = Literal["worse"]
Severity = Literal["warning", "critical"]
LaneName = Literal["fast", "daily", "weekly", "deployment"]
IncidentState = Literal["open", "worse", "spread", "resolved", "accepted"]
"""open, worse (grew by half), spread (reached further places): it goes on. resolved: over. accepted: a
person, or seven steady days, made it the new normal."""
GOING_ON: Final[frozenset[IncidentState]] = frozenset({"open", "worse", "spread"})

EventKind = Literal["opened", "changed", "resolved"]
"""opened: also again, within the time of reopening. changed: became worse, spread, or its version is known.
resolved: over, or accepted."""


class IncidentExamples(Config):
    """Requests to look at, ids as recorded (`flowdiff flow ID`)."""

    reference: tuple[str, ...] = ()
    problem: tuple[str, ...] = ()


class Incident(Config):
    """One cause of a change, as long as it lasts. Times are ns since the epoch, UTC."""

    id: str
    """16 hex digits (`incident_id`) and the tick at which it began, `-1700000000` in seconds since the epoch:
    the first part is the same whenever the same happens at the same place."""
    kind: ChangeKind
    """What happened: `slower`, `tail`, `errors`, `more-calls`, `new-path`, …"""
    direction: Direction
    """What got better is no incident: it is in `change_points`, with that outcome."""
    lane: LaneName
    """Which look found it."""
    component: str
    """Where to look first: who is called where a call is named, else who works."""
    operation: str
    """Operation of the deepest call site concerned."""
    root: str = ""
    """Root type whose requests feel it most, `component/point`; empty: many."""
    host: str = ""
    """The only host (instance) concerned; empty: not one alone."""
    version: str = ""
    """The version concerned, where versions were compared."""
    state: IncidentState
    severity: Severity
    """critical: a tenth of the requests fail more, or the mean is half as much again; warning: any other."""
    began_from_ns: int
    began_to_ns: int
    """It began between these: the ticks before and after the proposed change point."""
    opened_ns: int
    """End of the tick at which it was decided."""
    changed_ns: int
    """End of the tick of its last event."""
    resolved_ns: int | None = None
    """End of what it disturbed; None while it goes on."""
    headline: str
    """The finding's title: operation and component, what happened, by how much."""
    before: float
    after: float
    unit: Unit
    interval: Interval
    """95 %, of after - before."""
    contribution_us: float
    """What it adds to the mean response time, µs a request."""
    share_of_change: float | None = None
    """Part of all added time that it explains, 0 to 1."""
    finding: Finding | None = None
    """The finding of the last comparison, without what only its report draws."""
    also: tuple[str, ...] = ()
    """Headlines of further findings that joined it."""
    examples: IncidentExamples = IncidentExamples()
    report: str = ""
    """Id of its report: `reports/<id>/report.json` and `report.html` in the lake; empty: none was kept."""
    looks: int = Field(default=1, ge=0)
    """Comparisons that found it."""
    recent: int = Field(default=1, ge=0)
    """Incidents, itself included, that were opened in the 28 days before its last event."""
    series: tuple[str, ...] = ()
    """Series of the fast lane that rose for it."""
    note: str = ""
    """What a person said of it (`flowdiff incidents accept`), or the deployment it goes with."""

    @property
    def goes_on(self) -> bool:
        """Whether it is not over."""
        return self.state in GOING_ON


class IncidentEvent(Config):
    """One thing that happened to an incident."""

    id: str
    """32 hex digits, the same whoever says it again: of incident, state and tick (`event_id`)."""
    incident_id: str
    kind: EventKind
    at_ns: int
    """End of the tick at which it was decided: event time, so the same in every run."""
    incident: Incident
    """As it was then."""


Notify = Callable[[Sequence[IncidentEvent]], None]
"""See the module."""


def incident_id(lake_id: str, family: str, direction: Direction, place: str) -> str:
    """The identity of an incident: what happens (time, errors, path), and where, in which lake."""
    return _hash(16, lake_id, family, direction, place)


def event_id(kind: EventKind, incident: Incident, at_ns: int) -> str:
    """The identity of what happened to an incident at a tick."""
    return _hash(32, incident.id, kind, incident.state, str(at_ns))


def event_of(kind: EventKind, incident: Incident, at_ns: int) -> IncidentEvent:
    """The event that an incident is now as it is."""
    return IncidentEvent(
        id=event_id(kind, incident, at_ns), incident_id=incident.id, kind=kind, at_ns=at_ns, incident=incident
    )


def _hash(digits: int, *parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:digits]
