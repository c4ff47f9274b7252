"""Alertmanager: open incidents as alerts of its API v2, repeated while they are open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from flowdiff.notify.messages import clipped, facts, instant, json_bytes, sentence
from flowdiff.notify.outlet import JSON, Outlet
from flowdiff.notify.senders import AlertSender, Sender
from flowdiff.notify.settings import NotifySettings, Receiver
from schemas.incidents import Incident, IncidentEvent

ALERT_NAME: Final = "FlowdiffIncident"


class Alertmanager(Outlet[Receiver]):
    """Alertmanager as a receiver: gets open and recently ended incidents as alerts, not single events."""

    below = "/api/v2/alerts"

    def sender(self, known: Sequence[IncidentEvent]) -> Sender:
        """Make the sender of alerts; it starts with the incidents open in `known`, the events of the lake."""
        context = self.context
        last = {event.incident_id: event.incident for event in known}
        return AlertSender(
            self.name,
            lambda shown, now_ns: self.addressed(alerts(shown, context.lake, context.settings, now_ns), JSON),
            last.values(),
            context.say,
            context.settings,
            context.now_ns,
        )


def alerts(incidents: Iterable[Incident], lake: str, settings: NotifySettings, now_ns: int) -> bytes:
    """JSON for Alertmanager's API v2. Labels are an incident's identifying fields and its severity, by which
    Alertmanager routes.
    """
    return json_bytes([_alert(incident, lake, settings, now_ns) for incident in incidents])


def _alert(incident: Incident, lake: str, settings: NotifySettings, now_ns: int) -> dict[str, Any]:
    known = facts(incident, settings)
    link = known["report"] if settings.reports else ""
    ends_ns = now_ns + settings.alert_lasts_ns if incident.goes_on else now_ns
    annotations = {
        "summary": known["headline"],
        "description": sentence(known),
        "state": known["state"],
        "examples": ", ".join(known["examples"]["problem"]),
        "report": known["report"],
        "runbook_url": settings.runbook,
    }
    return {
        "labels": {
            "alertname": ALERT_NAME,
            "lake": clipped(lake, settings),
            "id": incident.id,
            "kind": known["kind"],
            "component": known["component"],
            "operation": known["operation"],
            "severity": known["severity"],
        },
        "annotations": {name: text for name, text in annotations.items() if text},
        "startsAt": instant(min(incident.opened_ns, ends_ns)),
        "endsAt": instant(ends_ns),
        **({"generatorURL": link} if link else {}),
    }
