"""Incidents that `flowdiff watch` found in a lake, one a cause, and their events.

The watcher decides window by window (`analyze.watch`) and stores its decisions as commits of its own lane in
the lake. A commit is a function of sealed windows, settings and version. So are the ids made here: a restart,
or another process that takes over, repeats the same events and no others.

The interface to reporting (gauges, alerts, messages, log events) is one callable:

    Notify = Callable[[Sequence[IncidentEvent]], None]

The watcher calls it after each commit with the events of that commit, oldest first, and once more when it
starts with the events of the lake's last commit, as the process before it may have died between commit and
call. So it is called at least once an event, and senders remember `IncidentEvent.id`. It must return
soon (queue, do not wait for a receiver) and must not raise: the commit is already made. It is also called
without events, once a decided window, as a clock for repetition (an alert is sent again while its incident
is open).

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
"""Ongoing: open, worse (grew by half), spread (reached further places). Ended: resolved; accepted as the new
normal, by a person or after seven steady days."""
GOING_ON: Final[frozenset[IncidentState]] = frozenset({"open", "worse", "spread"})

EventKind = Literal["opened", "changed", "resolved"]
"""opened: also reopened. changed: became worse, spread, or its version became known. resolved: also
accepted.
"""


class IncidentExamples(Config):
    """Example requests, ids as recorded (`flowdiff flow ID`)."""

    reference: tuple[str, ...] = ()
    problem: tuple[str, ...] = ()


class Incident(Config):
    """One cause of a change, as long as it lasts. Times are ns since the epoch, UTC."""

    id: str
    """16 hex digits (`incident_id`) and the tick of its begin, `-1700000000` in seconds since the epoch; the
    first part is the same whenever the same happens at the same place.
    """
    kind: ChangeKind
    """Kind of change: `slower`, `tail`, `errors`, `more-calls`, `new-path`, …"""
    direction: Direction
    """Always worse; improvements are in `change_points`."""
    lane: LaneName
    """Lane of the watch that found it."""
    component: str
    """Component to look at first: the callee where a call is named, else the one that does the work."""
    operation: str
    """Operation of the deepest call site concerned."""
    root: str = ""
    """Most affected root type, `component/point`; empty: several."""
    host: str = ""
    """The only host (instance) affected; empty: several."""
    version: str = ""
    """Version affected, where versions were compared."""
    state: IncidentState
    severity: Severity
    """critical: a tenth of the requests fail more, or the mean grew by half; warning: any other."""
    began_from_ns: int
    began_to_ns: int
    """Interval of its begin: the ticks before and after the proposed change point."""
    opened_ns: int
    """End of the tick of its detection."""
    changed_ns: int
    """End of the tick of its last event."""
    resolved_ns: int | None = None
    """End of its effect; None while it is open."""
    headline: str
    """Title of the finding: operation and component, kind and size of the change."""
    before: float
    after: float
    unit: Unit
    interval: Interval
    """95 % confidence interval of after - before."""
    contribution_us: float
    """Added mean response time, µs a request."""
    share_of_change: float | None = None
    """Share of all that got slower that it explains, 0 to 1."""
    finding: Finding | None = None
    """Finding of the last comparison, without data that only its report draws."""
    also: tuple[str, ...] = ()
    """Headlines of findings that joined it."""
    examples: IncidentExamples = IncidentExamples()
    report: str = ""
    """Id of its report: `reports/<id>/report.json` and `report.html` in the lake; empty: none was stored."""
    looks: int = Field(default=1, ge=0)
    """Number of comparisons that found it."""
    recent: int = Field(default=1, ge=0)
    """Number of incidents, itself included, opened in the 28 days before its last event."""
    series: tuple[str, ...] = ()
    """Series of the fast lane that alarmed for it."""
    note: str = ""
    """A person's note (`flowdiff incidents accept`), or the deployment it belongs to."""

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
    """State of the incident at that time."""


Notify = Callable[[Sequence[IncidentEvent]], None]
"""Receiver of events, see the module docstring."""


def incident_id(lake_id: str, family: str, direction: Direction, place: str) -> str:
    """Identity of an incident: kind of effect (time, errors, path), place and lake."""
    return _hash(16, lake_id, family, direction, place)


def event_id(kind: EventKind, incident: Incident, at_ns: int) -> str:
    """Identity of an event of an incident at a tick."""
    return _hash(32, incident.id, kind, incident.state, str(at_ns))


def event_of(kind: EventKind, incident: Incident, at_ns: int) -> IncidentEvent:
    """Event with the current state of an incident."""
    return IncidentEvent(
        id=event_id(kind, incident, at_ns), incident_id=incident.id, kind=kind, at_ns=at_ns, incident=incident
    )


def _hash(digits: int, *parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:digits]
