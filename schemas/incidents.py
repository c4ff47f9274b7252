"""Incidents that `flowdiff watch` found in a lake, one per cause, and their events.

The watcher decides window by window (`analyze.watch`) and stores its decisions as commits of its own lane in
the lake. A commit is a function of sealed windows, settings and version. So are the ids made here: a restart,
or another process that takes over, repeats the same events and no others.

The interface to reporting (gauges, alerts, messages, log events) is one callable:

    Notify = Callable[[Sequence[IncidentEvent]], None]

The watcher calls it after each commit with the events of that commit, oldest first, and once more when it
starts with the events of the lake's last commit, as the process before it may have died between commit and
call. So each event is passed at least once, and senders remember `IncidentEvent.id`. It must return soon
(queue, do not wait for a receiver) and must not raise: the commit is already made. It is also called without
events, once per decided window, as a clock for repetition (an alert is sent again while its incident is
open).

To read incidents use `analyze.watch.lane.incidents_of(store)`: every incident in the lake, open ones first.
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
"""States of an incident. Ongoing: open, worse (grew by half), spread (reached further places). Ended:
resolved; accepted (as the new normal, by a person or after seven steady days).
"""
GOING_ON: Final[frozenset[IncidentState]] = frozenset({"open", "worse", "spread"})

EventKind = Literal["opened", "changed", "resolved"]
"""Kinds of incident events. opened: also reopened. changed: became worse, spread, or its version became
known. resolved: also accepted.
"""


class IncidentExamples(Config):
    """Example requests of an incident from both periods; ids as recorded (`flowdiff flow ID`)."""

    reference: tuple[str, ...] = ()
    problem: tuple[str, ...] = ()


class Incident(Config):
    """Cause of a change, from its start to its end. Times are ns since the epoch, UTC."""

    id: str
    """16 hex digits (`incident_id`), a dash, and the start of the tick in which it began, seconds since the
    epoch: `…-1700000000`. The hex digits are equal whenever the same change happens at the same place.
    """
    kind: ChangeKind
    """Kind of change: `slower`, `tail`, `errors`, `more-calls`, `new-path`, …"""
    direction: Direction
    """Always worse; improvements are in `change_points`."""
    lane: LaneName
    """Lane of the watch that found the incident: fast, daily, weekly, deployment."""
    component: str
    """Component to look at first: the callee where a call is named, else the one that does the work."""
    operation: str
    """Operation of the deepest call site concerned."""
    root: str = ""
    """Most affected root type, `component/point`; empty: several."""
    host: str = ""
    """The only host (instance) affected; empty: several."""
    version: str = ""
    """Service version affected; empty if versions were not compared."""
    state: IncidentState
    severity: Severity
    """`critical`: the share of failing requests rose by at least 0.1, or the mean response time by half (both
    adjustable); `warning`: any other incident."""
    began_from_ns: int
    began_to_ns: int
    """Latest time at which the incident may have begun, ns since the epoch (earliest: `began_from_ns`)."""
    opened_ns: int
    """End of the tick in which the incident was detected, ns since the epoch."""
    changed_ns: int
    """End of the tick of the incident's last event, ns since the epoch."""
    resolved_ns: int | None = None
    """End of the incident's effect on requests, ns since the epoch; None while the incident is open."""
    headline: str
    """Title of the finding: operation and component, kind and size of the change."""
    before: float
    after: float
    unit: Unit
    interval: Interval
    """95 % confidence interval of `after` - `before`, in `unit`."""
    contribution_us: float
    """Added mean response time, µs a request."""
    share_of_change: float | None = None
    """Share, in [0, 1], of everything that got slower that the incident explains; None: the mean did not
    change.
    """
    finding: Finding | None = None
    """Finding of the last comparison, without the data for drawings, which are only in the report."""
    also: tuple[str, ...] = ()
    """Headlines of further findings that were merged into this incident."""
    examples: IncidentExamples = IncidentExamples()
    report: str = ""
    """Id of the incident's report, `reports/<id>/report.html` in the lake; empty: none is stored."""
    looks: int = Field(default=1, ge=0)
    """Number of comparisons that found the incident."""
    recent: int = Field(default=1, ge=0)
    """Number of incidents, this one included, opened in the 28 days before its last event."""
    series: tuple[str, ...] = ()
    """Names of the fast lane's series whose alarms led to the incident."""
    note: str = ""
    """A person's note (`flowdiff incidents accept`), or the deployment that the incident belongs to."""

    @property
    def goes_on(self) -> bool:
        """True while the incident is open."""
        return self.state in GOING_ON


class IncidentEvent(Config):
    """One event in the life of an incident."""

    id: str
    """32 hex digits from incident, state and tick (`event_id`), the same for every process that repeats
    it.
    """
    incident_id: str
    kind: EventKind
    at_ns: int
    """End of the tick of the decision: event time, so equal in every run."""
    incident: Incident
    """State of the incident after this event."""


Notify = Callable[[Sequence[IncidentEvent]], None]
"""Callable that the watcher calls with the events of each commit: see the module docstring."""


def incident_id(lake_id: str, family: str, direction: Direction, place: str) -> str:
    """Return 16 hex digits that identify an incident by lake, family of change (time, errors, path),
    direction, place.
    """
    return _hash(16, lake_id, family, direction, place)


def event_id(kind: EventKind, incident: Incident, at_ns: int) -> str:
    """Return 32 hex digits that identify an event by incident, its state, kind and tick."""
    return _hash(32, incident.id, kind, incident.state, str(at_ns))


def event_of(kind: EventKind, incident: Incident, at_ns: int) -> IncidentEvent:
    """Make the event for the current state of an incident."""
    return IncidentEvent(
        id=event_id(kind, incident, at_ns), incident_id=incident.id, kind=kind, at_ns=at_ns, incident=incident
    )


def _hash(digits: int, *parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:digits]
