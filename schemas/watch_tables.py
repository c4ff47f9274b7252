"""Tables that `flowdiff watch` keeps in a lake: plain Parquet under `LAKE/watch/<table>/`, one row a
thing."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from schemas.arrow_rows import Narrow, arrow_types
from schemas.config import Config


def _field(name: str, type_: pa.DataType, doc: str) -> pa.Field:
    return pa.field(name, type_, metadata={"doc": doc})


INCIDENT_EVENTS_SCHEMA: Final = pa.schema(
    [
        _field("event", pa.string(), "id of the event, the same whoever says it again"),
        _field("incident", pa.string(), "id of the incident"),
        _field("event_kind", pa.string(), "opened, changed, resolved"),
        _field("at_ns", pa.int64(), "event time at which it was decided, ns since the epoch"),
        _field("state", pa.string(), "open, worse, spread, resolved, accepted"),
        _field("severity", pa.string(), "warning, critical"),
        _field("direction", pa.string(), "worse; what got better is in change_points"),
        _field("lane", pa.string(), "which look found it: fast, daily, weekly, deployment"),
        _field("kind", pa.string(), "what happened: slower, tail, errors, more-calls, new-path, …"),
        _field("component", pa.string(), "where to look first"),
        _field("operation", pa.string(), "operation of the deepest call site concerned"),
        _field("root", pa.string(), "root type that feels it; empty: many"),
        _field("host", pa.string(), "the only host concerned; empty: not one alone"),
        _field("version", pa.string(), "the version concerned, where versions were compared"),
        _field("began_from_ns", pa.int64(), "it began after this"),
        _field("began_to_ns", pa.int64(), "and before this"),
        _field("opened_ns", pa.int64(), "when it was decided"),
        _field("resolved_ns", pa.int64(), "end of what it disturbed; null while it goes on"),
        _field("headline", pa.string(), "operation and component, what happened, by how much"),
        _field("before", pa.float64(), "value of the baseline, in `unit`"),
        _field("after", pa.float64(), "value since"),
        _field("unit", pa.string(), "us, share, calls, ratio"),
        _field("low", pa.float64(), "95 % interval of after - before"),
        _field("high", pa.float64(), "its other end"),
        _field("contribution_us", pa.float64(), "what it adds to the mean response time, µs a request"),
        _field("share", pa.float64(), "part of all that got slower, 0 to 1; null: the mean did not change"),
        _field("looks", pa.int32(), "comparisons that reported it"),
        _field("report", pa.string(), "id of its report under reports/; empty: none"),
        _field("reference_requests", pa.list_(pa.string()), "examples of the baseline"),
        _field("problem_requests", pa.list_(pa.string()), "examples since"),
        _field("note", pa.string(), "what a person said, or the deployment it goes with"),
        _field("document", pa.string(), "the incident as it was then, JSON"),
    ]
)
"""Schema of events of incidents, one row per event. The last event of an incident is its current state, shown
by the view `incidents`."""


class ChangePoint(Config):
    """A row of `change_points`: a candidate of the fast lane of the watch, and the outcome of its
    comparison."""

    at_ns: int
    """when it was looked at, ns since the epoch"""
    onset_ns: int
    """where it began, by the sums"""
    series: str
    """the series that rose most"""
    log_evidence: float
    """log of its e-value"""
    threshold: float
    """log of the e-value from which a candidate is looked at"""
    outcome: str
    """of the comparison: unchanged, changed, not-sure-yet, cannot-tell, better, …; or transient"""
    headline: str = ""
    """the comparison's first finding for the worse; empty: none"""
    places: tuple[str, ...] = ()
    """components that this finding names"""
    incident: str = ""
    """id of the incident that it opened or joined; empty: none"""
    comparisons: Narrow = 1
    """how often this candidate was compared so far"""


class WatchRun(Config):
    """A row of `watch_runs`: a decided window."""

    window_ns: int
    """start of the decided window, ns since the epoch"""
    through_ns: int
    """its end"""
    requests: int
    """requests in it"""
    series: Narrow = 0
    """series that are known well enough to be watched"""
    ticks: Narrow
    """parts that the window was cut into"""
    quiet_ticks: Narrow = 0
    """ticks that say what is usual"""
    threshold: float = 0.0
    """log of the e-value from which a candidate is looked at"""
    candidates: Narrow = 0
    """candidates that were looked at for the first time"""
    comparisons: Narrow = 0
    """comparisons made"""
    withheld: Narrow = 0
    """series over the threshold whose change was too small for one"""
    folded: Narrow = 0
    """instances that are not watched one by one, as their component has too many (most_instances)"""
    open_incidents: Narrow = 0
    """incidents that go on"""
    suspended: str = ""
    """why nothing could be raised: learning, load; empty: it could"""
    seconds: float = 0.0
    """time that it took"""


def _schema_of(row: type[Config]) -> pa.Schema:
    """Columns of a table from the fields of its row model."""
    docs = {name: str(info.description) for name, info in row.model_fields.items()}
    return pa.schema([_field(name, type_, docs[name]) for name, type_ in arrow_types(row).items()])


WATCH_TABLES: Final = {
    "incident_events": INCIDENT_EVENTS_SCHEMA,
    "change_points": _schema_of(ChangePoint),
    "watch_runs": _schema_of(WatchRun),
}
