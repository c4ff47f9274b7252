"""Facts about an incident, from which messages and templates are made, and a Markdown text of them.

The facts contain no settings, and of requests only their ids.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from analyze.report import measures
from analyze.report.blocks import Styled
from analyze.report.markdown import inline
from analyze.report.wording import change, clip, visible
from flowdiff.notify.settings import NotifySettings
from schemas.incidents import Incident
from schemas.report.findings import Interval
from schemas.windows import NS_PER_SECOND


def markdown(incident: Incident, known: Mapping[str, Any], settings: NotifySettings) -> str:
    """Short Markdown text for a chat. known: the incident's `facts`."""
    lines = [f"**{incident.severity}, {incident.state}**: {inline(known['headline'])}", ""]
    lines += [f"* {inline(sentence(known))}"]
    lines += [f"* also: {inline(text)}" for text in known["also"]]
    if examples := known["examples"]["problem"]:
        linked = [part for id_ in examples for part in (Styled(id_, "code"), ", ")][:-1]
        lines.append(f"* look at {inline(linked)}")
    if known["report"]:
        link = known["report"]
        lines.append(f"* report: {f'<{link}>' if settings.reports else inline(Styled(link, 'code'))}")
    return "\n".join(lines)


def facts(incident: Incident, settings: NotifySettings) -> dict[str, Any]:
    """Fact name -> value about an incident, for all messages and templates; every text has a bounded
    length.
    """
    unit, reports, n_examples = incident.unit, settings.reports, settings.max_examples
    path = f"reports/{incident.report}/report.html" if incident.report else ""
    return {
        "id": incident.id,
        "kind": incident.kind.value,
        "direction": incident.direction,
        "state": incident.state,
        "severity": incident.severity,
        "found_by": incident.lane,
        "recent": incident.recent,
        "headline": clipped(incident.headline, settings),
        **{
            name: clipped(getattr(incident, name), settings)
            for name in ("component", "operation", "root", "host", "version", "note")
        },
        "began_after": instant(incident.began_from_ns),
        "began_before": instant(incident.began_to_ns),
        "opened": instant(incident.opened_ns),
        "changed": instant(incident.changed_ns),
        "resolved": None if incident.resolved_ns is None else instant(incident.resolved_ns),
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
        "also": [clipped(text, settings) for text in incident.also[:n_examples]],
        "examples": {
            "reference": [clipped(id_, settings) for id_ in incident.examples.reference[:n_examples]],
            "problem": [clipped(id_, settings) for id_ in incident.examples.problem[:n_examples]],
        },
        "report": f"{reports.rstrip('/')}/{path}" if path and reports else path,
    }


def sentence(known: Mapping[str, Any]) -> str:
    """Sentence on the size of a change and its onset. known: the incident's `facts`."""
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


def clipped(text: str, settings: NotifySettings) -> str:
    """Text without control characters, truncated to `max_text_chars`."""
    return clip(visible(text), settings.max_text_chars)


def instant(ns: int) -> str:
    """Time in RFC 3339, UTC, whole seconds."""
    return f"{datetime.fromtimestamp(ns // NS_PER_SECOND, UTC):%Y-%m-%dT%H:%M:%SZ}"


def json_bytes(document: Any) -> bytes:
    """Encode a message as JSON."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
