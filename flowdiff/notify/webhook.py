"""Webhook: CloudEvents 1.0 in structured mode, signed by Standard Webhooks."""

from __future__ import annotations

from urllib.parse import quote

from flowdiff.notify.messages import facts, instant, json_bytes, markdown
from flowdiff.notify.outlet import Context, EventOutlet
from flowdiff.notify.post import Message
from flowdiff.notify.settings import NotifySettings, WebhookReceiver
from flowdiff.notify.signature import signed, signing_key
from schemas.errors import ConfigError
from schemas.incidents import IncidentEvent
from schemas.windows import NS_PER_SECOND


class Webhook(EventOutlet[WebhookReceiver]):
    """Webhook as a receiver: gets every event as a CloudEvent, signed if there is a secret."""

    def __init__(self, name: str, receiver: WebhookReceiver, context: Context) -> None:
        super().__init__(name, receiver, context)
        secret = self.secret("secret", receiver.secret, receiver.secret_file)
        try:
            self._key = signing_key(secret) if secret else b""
        except ValueError as error:
            raise ConfigError(
                f"The secret of notify.{name} cannot sign: {error}.",
                remedy="Take it from the receiver again.",
            ) from None

    def message(self, event: IncidentEvent) -> Message:
        """Make the message with an event's CloudEvent, and its signature."""
        body = cloud_event(event, self.context.lake, self.context.settings)
        at_s = self.context.now_ns() // NS_PER_SECOND
        headers = signed(body, event.id, at_s, self._key) if self._key else {}
        return self.addressed(body, "application/cloudevents+json", **headers)


def cloud_event(event: IncidentEvent, lake: str, settings: NotifySettings) -> bytes:
    """CloudEvents JSON for an event of an incident; its `id` is the event's id, also when it is sent
    again.
    """
    incident = event.incident
    known = facts(incident, settings)
    document = {
        "specversion": "1.0",
        "id": event.id,
        "source": f"//flowdiff/{quote(lake.strip('/'), safe='/:')}",
        "type": f"io.flowdiff.incident.{event.kind}.v1",
        "subject": incident.id,
        "time": instant(event.at_ns),
        "datacontenttype": "application/json",
        "data": {**known, "event": event.kind, "markdown": markdown(incident, known, settings)},
    }
    return json_bytes(document)
