"""Commits of the watch in the lake, with all state that a restart needs, and the tables derived from them.

A commit is one file under `watch/commits/`, created under the next free number: of several processes one
succeeds, the others read its decision and continue from there. Table rows are part of the commit and are
written as files afterwards, named by number and content, also by whichever process comes next, so a process
may die at any point. Old commits are deleted; the tables stay, and each commit names all their files
(`stitch.lake.watch_files`).
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import ValidationError

from analyze.watch.candidates import Decided
from analyze.watch.slow_lane import SlowState
from analyze.watch.versions import Versions
from analyze.watch.watcher import State
from schemas.config import Config
from schemas.errors import LakeError
from schemas.incidents import Incident, IncidentEvent
from schemas.watch_tables import WATCH_TABLES, ChangePoint, WatchRun
from stitch.lake.store import Store
from stitch.lake.watch_files import COMMITS, HEAD, Rows, head, put_body, put_rows, read_rows_of

RUNS_A_FILE: Final = 96
"""Number of decided windows whose rows are written to a table as one file, since small files are costly;
earlier the rows wait in commits."""


class WatchCommit(Config):
    """One commit of the watch: a decision, and the state after it."""

    version: int = 1
    seq: int
    owner: str
    created_by: str
    settings: dict[str, Any]
    state: State
    slow: SlowState = SlowState()
    versions: Versions = Versions()
    events: tuple[IncidentEvent, ...] = ()
    change_points: tuple[ChangePoint, ...] = ()
    runs: tuple[WatchRun, ...] = ()
    """Rows of `watch_runs` that wait for a file, or that this commit writes to one (if `runs_out`)."""
    runs_out: bool = False

    def followed_by(self, decided: Decided, **changed: object) -> WatchCommit:
        """Commit that follows this one: with a decision, and the rows that wait for a file.

        changed: field -> new value.
        """
        runs = () if self.runs_out else self.runs
        if decided.run is not None:
            runs = (*runs, decided.run)
        update = {
            "seq": self.seq + 1,
            "events": tuple(decided.events),
            "change_points": tuple(decided.change_points),
            "runs": runs,
            "runs_out": bool(decided.events) or len(runs) >= RUNS_A_FILE,
        }
        return self.model_copy(update={**update, **changed})


def last_commit(store: Store) -> WatchCommit | None:
    """Read the last commit; None if there is none yet.

    Raises LakeError if it is damaged or missing, OSError.
    """
    last = head(store)
    if last is None:
        return None
    try:
        return WatchCommit.model_validate_json(last.body)
    except ValidationError as error:
        raise LakeError(
            f"The watch's last commit is of another version of flowdiff ({error.error_count()} errors).",
            remedy=f"Remove {COMMITS} and {HEAD}: the watch begins anew, its tables stay.",
        ) from error


def put_commit(store: Store, commit: WatchCommit) -> None:
    """Store a commit under its number, then write the files of its rows into the tables.

    Raises TakenError, LakeError, OSError.
    """
    put_body(store, commit.seq, commit.model_dump_json().encode(), rows_of(commit))


def publish(store: Store, commit: WatchCommit) -> None:
    """Write the files of the rows of `commit`, the lake's last commit, into the tables, unless they exist
    already."""
    put_rows(store, commit.seq, rows_of(commit))


def rows_of(commit: WatchCommit) -> Rows:
    """Rows that a commit adds to the tables: table -> rows."""
    return {
        "incident_events": [event_row(event) for event in commit.events],
        "change_points": [point.model_dump() for point in commit.change_points],
        "watch_runs": [run.model_dump() for run in commit.runs] if commit.runs_out else [],
    }


def event_row(event: IncidentEvent) -> dict[str, Any]:
    """Row of table `incident_events` for an event."""
    incident = event.incident
    known = incident.model_dump(mode="json", include=_SAME)
    return {
        **known,
        "event": event.id,
        "incident": incident.id,
        "event_kind": event.kind,
        "at_ns": event.at_ns,
        "low": incident.interval.low,
        "high": incident.interval.high,
        "share": incident.share_of_change,
        "reference_requests": list(incident.examples.reference),
        "problem_requests": list(incident.examples.problem),
        "document": incident.model_dump_json(),
    }


_SAME: Final = {name for name in WATCH_TABLES["incident_events"].names if name in Incident.model_fields}


def events_of(store: Store) -> list[IncidentEvent]:
    """Every event in the lake, oldest first. Raises LakeError, OSError."""
    rows = read_rows_of(store, "incident_events").select(_EVENT).to_pylist()
    found = {
        row["event"]: IncidentEvent(
            id=row["event"],
            incident_id=row["incident"],
            kind=row["event_kind"],
            at_ns=row["at_ns"],
            incident=Incident.model_validate_json(row["document"]),
        )
        for row in rows
    }
    commit = last_commit(store)  # its rows may not be in the tables yet
    if commit is not None:
        found |= {event.id: event for event in commit.events}
    return [*found.values()]


_EVENT: Final = ["event", "incident", "event_kind", "at_ns", "document"]


def incidents_of(store: Store) -> list[Incident]:
    """Every incident in the lake, open ones first, then by latest change. Raises LakeError, OSError."""
    found = {event.incident_id: event.incident for event in events_of(store)}.values()
    return sorted(found, key=lambda one: (not one.goes_on, -one.changed_ns, one.id))
