"""Messages about incidents: a CloudEvent with Markdown, an alert, a log record.

They contain no settings, and of requests only their ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from analyze.report import measures
from analyze.report.blocks import Styled
from analyze.report.markdown import inline
from analyze.report.wording import change, clip, visible
from flowdiff.cli.version import version
from schemas.incidents import Incident, IncidentEvent
from schemas.report.findings import Interval
from schemas.windows import NS_PER_SECOND

LONGEST: Final = 600
"""Characters of a text, at most."""
EXAMPLES: Final = 3
"""Example requests that are named, at most."""
ALERT_NAME: Final = "FlowdiffIncident"
ALERT_LASTS_NS: Final = 240 * NS_PER_SECOND
"""Time after which an alert that is not repeated ends."""
_TYPE: Final = "io.flowdiff.incident.{}.v1"
_SEVERITY: Final = {"warning": (13, "WARN"), "critical": (21, "FATAL")}


def cloud_event(event: IncidentEvent, lake: str, reports: str) -> bytes:
    """A CloudEvent 1.0 in structured mode; its `id` is the event's, the same however often it is sent."""
    incident = event.incident
    document = {
        "specversion": "1.0",
        "id": event.id,
        "source": f"//flowdiff/{quote(lake.strip('/'), safe='/:')}",
        "type": _TYPE.format(event.kind),
        "subject": incident.id,
        "time": _instant(event.at_ns),
        "datacontenttype": "application/json",
        "data": {**facts(incident, reports), "event": event.kind, "markdown": markdown(incident, reports)},
    }
    return _json(document)


def alerts(incidents: Iterable[Incident], lake: str, reports: str, now_ns: int, runbook: str = "") -> bytes:
    """Alerts for Alertmanager's API v2: labels are the identity and the severity, by which it routes."""
    return _json([_alert(incident, lake, reports, now_ns, runbook) for incident in incidents])


def _alert(incident: Incident, lake: str, reports: str, now_ns: int, runbook: str) -> dict[str, Any]:
    known = facts(incident, reports)
    link = known["report"] if reports else ""
    ends_ns = now_ns + ALERT_LASTS_NS if incident.goes_on else now_ns
    annotations = {
        "summary": known["headline"],
        "description": _sentence(known),
        "state": known["state"],
        "examples": ", ".join(known["examples"]["problem"]),
        "report": known["report"],
        "runbook_url": runbook,
    }
    return {
        "labels": {
            "alertname": ALERT_NAME,
            "lake": _clip(lake),
            "id": incident.id,
            "kind": known["kind"],
            "component": known["component"],
            "operation": known["operation"],
            "severity": known["severity"],
        },
        "annotations": {name: text for name, text in annotations.items() if text},
        "startsAt": _instant(min(incident.opened_ns, ends_ns)),
        "endsAt": _instant(ends_ns),
        **({"generatorURL": link} if link else {}),
    }


def log_record(event: IncidentEvent, lake: str, reports: str, now_ns: int) -> bytes:
    """An OTLP log event, for `/v1/logs`."""
    known = facts(event.incident, reports)
    number, word = _SEVERITY[event.incident.severity]
    name = f"flowdiff.incident.{event.kind}"
    attributes = {
        "event.name": name,
        "event.id": event.id,
        "incident.id": event.incident.id,
        **{
            f"incident.{key}": known[key]
            for key in ("kind", "state", "component", "operation", "root", "host", "version", "report")
        },
        "incident.description": _sentence(known),
    }
    record = {
        "timeUnixNano": str(event.at_ns),
        "observedTimeUnixNano": str(now_ns),
        "severityNumber": number,
        "severityText": word,
        "eventName": name,
        "body": {"stringValue": known["headline"]},
        "attributes": _attributes(attributes),
    }
    scope = {"scope": {"name": "flowdiff.watch", "version": version()}, "logRecords": [record]}
    resource = {"attributes": _attributes({"service.name": "flowdiff", "flowdiff.lake": _clip(lake)})}
    return _json({"resourceLogs": [{"resource": resource, "scopeLogs": [scope]}]})


def markdown(incident: Incident, reports: str) -> str:
    """Short Markdown text for a chat."""
    known = facts(incident, reports)
    lines = [f"**{incident.severity}, {incident.state}**: {inline(known['headline'])}", ""]
    lines += [f"* {inline(_sentence(known))}"]
    lines += [f"* also: {inline(text)}" for text in known["also"]]
    if examples := known["examples"]["problem"]:
        linked = [part for id_ in examples for part in (Styled(id_, "code"), ", ")][:-1]
        lines.append(f"* look at {inline(linked)}")
    if known["report"]:
        link = known["report"]
        lines.append(f"* report: {f'<{link}>' if reports else inline(Styled(link, 'code'))}")
    return "\n".join(lines)


def facts(incident: Incident, reports: str) -> dict[str, Any]:
    """Facts about an incident, by name, for all messages and templates; every text is bounded."""
    unit = incident.unit
    path = f"reports/{incident.report}/report.html" if incident.report else ""
    return {
        "id": incident.id,
        "kind": incident.kind.value,
        "direction": incident.direction,
        "state": incident.state,
        "severity": incident.severity,
        "found_by": incident.lane,
        "recent": incident.recent,
        "headline": _clip(incident.headline),
        **{
            name: _clip(getattr(incident, name))
            for name in ("component", "operation", "root", "host", "version", "note")
        },
        "began_after": _instant(incident.began_from_ns),
        "began_before": _instant(incident.began_to_ns),
        "opened": _instant(incident.opened_ns),
        "changed": _instant(incident.changed_ns),
        "resolved": None if incident.resolved_ns is None else _instant(incident.resolved_ns),
        "unit": unit,
        "before": incident.before,
        "after": incident.after,
        "change_low": incident.interval.low,
        "change_high": incident.interval.high,
        "moved": measures.moved(unit, incident.before, incident.after),
        "change": measures.span(unit, Interval(low=incident.interval.low, high=incident.interval.high)),
        "contribution_us": incident.contribution_us,
        "contribution": f"{change(incident.contribution_us)} a request",
        "share_of_change": incident.share_of_change,
        "also": [_clip(text) for text in incident.also[:EXAMPLES]],
        "examples": {
            "reference": [_clip(id_) for id_ in incident.examples.reference[:EXAMPLES]],
            "problem": [_clip(id_) for id_ in incident.examples.problem[:EXAMPLES]],
        },
        "report": f"{reports.rstrip('/')}/{path}" if path and reports else path,
    }


def _sentence(known: Mapping[str, Any]) -> str:
    share = known["share_of_change"]
    parts = [f"{known['moved']} ({known['change']})", f"{known['contribution']} on the mean"]
    if share is not None:
        parts.append(f"{share:.0%} of all that got slower")
    parts.append(f"since {known['began_after']}")
    if known["resolved"]:
        parts.append(f"until {known['resolved']}")
    many = known["recent"]
    parts.append(f"with these settings {many} incident{'s' if many != 1 else ''} in the last 28 days")
    return ", ".join(parts)


def _clip(text: str) -> str:
    return clip(visible(text), LONGEST)


def _instant(ns: int) -> str:
    return f"{datetime.fromtimestamp(ns // NS_PER_SECOND, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _attributes(values: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items() if value]


def _json(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
