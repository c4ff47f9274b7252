"""Tables that `flowdiff watch` keeps in a lake: plain Parquet under `LAKE/watch/<table>/`, one row a
thing."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

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
        _field("severity", pa.string(), "info, warning, critical"),
        _field("direction", pa.string(), "worse, better"),
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
        _field("share", pa.float64(), "part of all added time, 0 to 1; null: the mean did not change"),
        _field("looks", pa.int32(), "comparisons that reported it"),
        _field("report", pa.string(), "id of its report under reports/; empty: none"),
        _field("reference_requests", pa.list_(pa.string()), "examples of the baseline"),
        _field("problem_requests", pa.list_(pa.string()), "examples since"),
        _field("note", pa.string(), "what a person said, or the deployment it goes with"),
        _field("document", pa.string(), "the incident as it was then, JSON"),
    ]
)
"""One row an event. The last one of an incident is what it is now: the view `incidents`."""

CHANGE_POINTS_SCHEMA: Final = pa.schema(
    [
        _field("at_ns", pa.int64(), "when it was looked at, ns since the epoch"),
        _field("onset_ns", pa.int64(), "where it began, by the sums"),
        _field("series", pa.string(), "the series that rose most"),
        _field("log_evidence", pa.float64(), "log of its e-value"),
        _field("threshold", pa.float64(), "log of the e-value from which a candidate is looked at"),
        _field(
            "outcome",
            pa.string(),
            "of the comparison: unchanged, changed, cannot-tell, better, …; or transient",
        ),
        _field("headline", pa.string(), "the comparison's first finding for the worse; empty: none"),
        _field("places", pa.list_(pa.string()), "components that this finding names"),
        _field("incident", pa.string(), "id of the incident that it opened or joined; empty: none"),
        _field("comparisons", pa.int32(), "how often this candidate was compared so far"),
    ]
)
"""One row a comparison that the fast lane asked for."""

WATCH_RUNS_SCHEMA: Final = pa.schema(
    [
        _field("window_ns", pa.int64(), "start of the decided window, ns since the epoch"),
        _field("through_ns", pa.int64(), "its end"),
        _field("requests", pa.int64(), "requests in it"),
        _field("series", pa.int32(), "series that are known well enough to be watched"),
        _field("ticks", pa.int32(), "parts that the window was cut into"),
        _field("quiet_ticks", pa.int32(), "ticks that say what is usual"),
        _field("threshold", pa.float64(), "log of the e-value from which a candidate is looked at"),
        _field("candidates", pa.int32(), "candidates that were looked at for the first time"),
        _field("comparisons", pa.int32(), "comparisons made"),
        _field("withheld", pa.int32(), "series over the threshold whose change was too small for one"),
        _field("open_incidents", pa.int32(), "incidents that go on"),
        _field("suspended", pa.string(), "why nothing could be raised: learning, load; empty: it could"),
        _field("seconds", pa.float64(), "time that it took"),
    ]
)
"""One row a decided window."""

WATCH_TABLES: Final = {
    "incident_events": INCIDENT_EVENTS_SCHEMA,
    "change_points": CHANGE_POINTS_SCHEMA,
    "watch_runs": WATCH_RUNS_SCHEMA,
}


class ChangePoint(Config):
    """A row of `change_points`."""

    at_ns: int
    onset_ns: int
    series: str
    log_evidence: float
    threshold: float
    outcome: str
    headline: str = ""
    places: tuple[str, ...] = ()
    incident: str = ""
    comparisons: int = 1


class WatchRun(Config):
    """A row of `watch_runs`."""

    window_ns: int
    through_ns: int
    requests: int
    series: int = 0
    ticks: int
    quiet_ticks: int = 0
    threshold: float = 0.0
    candidates: int = 0
    comparisons: int = 0
    withheld: int = 0
    open_incidents: int = 0
    suspended: str = ""
    seconds: float = 0.0
