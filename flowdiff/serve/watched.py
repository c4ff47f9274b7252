"""Incidents of a lake's watch, their events, and deployments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analyze.report import wording
from analyze.report.blocks import Styled, Words, dim, tag
from analyze.watch.lane import events_of, incidents_of, last_commit
from flowdiff.serve.links import Links
from schemas.incidents import Incident, IncidentEvent
from schemas.periods import format_instant
from stitch.lake.store import Store


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployment, detected by its version, or marked by a person."""

    at_ns: int
    text: str


@dataclass(frozen=True, slots=True)
class Watched:
    """State of a lake's watch; empty if nothing watches the lake."""

    incidents: Sequence[Incident] = ()
    """All incidents in the lake, open ones first."""
    events: Sequence[IncidentEvent] = ()
    """All events of incidents in the lake, oldest first."""
    deployments: Sequence[Deployment] = ()
    """Deployments under observation by the watch."""
    is_watched: bool = False

    def incidents_between(self, start_ns: int, end_ns: int) -> list[Incident]:
        """Incidents that overlap [start, end), ns since the epoch."""
        return [
            one
            for one in self.incidents
            if one.began_from_ns < end_ns and (one.resolved_ns is None or one.resolved_ns >= start_ns)
        ]

    def deployments_between(self, start_ns: int, end_ns: int) -> list[Deployment]:
        """Deployments in [start, end), ns since the epoch."""
        return [one for one in self.deployments if start_ns <= one.at_ns < end_ns]


def read_watched(store: Store) -> Watched:
    """Read the state of a lake's watch. Raises LakeError, OSError."""
    commit = last_commit(store)
    if commit is None:
        return Watched(incidents_of(store), events_of(store))
    deployments = [
        Deployment(one.start_ns, f"{one.component} {one.version}".strip() or "deployment")
        for one in commit.versions.rollouts
    ]
    return Watched(incidents_of(store), events_of(store), deployments, is_watched=True)


def incident_words(links: Links, incident: Incident) -> Words:
    """State, title and start of an incident, with a link to its page."""
    kind = "worse" if incident.goes_on else ""
    return (
        tag(incident.state, kind),
        " ",
        Styled(wording.clip(incident.headline, 200), href=links.to("incidents", incident.id)),
        dim(f" since {format_instant(incident.began_to_ns)}"),
    )
