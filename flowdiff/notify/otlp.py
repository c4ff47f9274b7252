"""OpenTelemetry Collector: log events by OTLP/HTTP with JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from flowdiff.cli.version import version
from flowdiff.notify.messages import clipped, facts, json_bytes, sentence
from flowdiff.notify.outlet import JSON, EventOutlet
from flowdiff.notify.post import Message
from flowdiff.notify.settings import NotifySettings, Receiver
from schemas.incidents import IncidentEvent

_SEVERITY: Final = {"warning": (13, "WARN"), "critical": (21, "FATAL")}


class Collector(EventOutlet[Receiver]):
    """OpenTelemetry Collector as a receiver: gets every event as a log record."""

    below = "/v1/logs"

    def message(self, event: IncidentEvent) -> Message:
        """Make the message with an event's log record."""
        context = self.context
        return self.addressed(log_record(event, context.lake, context.settings, context.now_ns()), JSON)


def log_record(event: IncidentEvent, lake: str, settings: NotifySettings, now_ns: int) -> bytes:
    """OTLP/HTTP body in JSON, with one log record for an event."""
    known = facts(event.incident, settings)
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
        "incident.description": sentence(known),
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
    of_lake = {"service.name": "flowdiff", "flowdiff.lake": clipped(lake, settings)}
    return json_bytes(
        {"resourceLogs": [{"resource": {"attributes": _attributes(of_lake)}, "scopeLogs": [scope]}]}
    )


def _attributes(values: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items() if value]
