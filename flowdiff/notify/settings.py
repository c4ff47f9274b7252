"""Receivers of incidents: `NotifySettings` has a row for each kind, and there is no other list of them.

To add one: a row, and a file with its messages (`outlet`). Addresses are validated here; secrets come from
the environment or from files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from flowdiff.notify.signature import signing_key
from ingest.http.address import address_of
from schemas.config import Config, Expert
from schemas.windows import NS_PER_SECOND


def _checked(url: str) -> str:
    if url:
        address_of(url)
    return url


_Url = Annotated[str, AfterValidator(_checked)]
"""Address, or empty."""


class Receiver(Config):
    """One receiver; it is notified if it has an address."""

    outlet: ClassVar[str] = ""
    """`module:class` of its messages, a subclass of `flowdiff.notify.outlet.Outlet`; imported on use."""
    url: _Url = ""
    """Its address, https:// or http://; empty: none."""
    url_file: Path | None = None
    """File with the address, where that is a secret itself."""
    token: SecretStr | None = None
    """Sent as `Authorization: Bearer`, over https, or to this machine."""
    token_file: Path | None = None
    """File with the token."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.url and self.url_file is not None:
            raise ValueError("give url or url_file, not both")
        has_token = self.token is not None or self.token_file is not None
        if self.url and has_token and not address_of(self.url).is_private:
            raise ValueError("the token would be sent readable: use https")
        return self

    @property
    def is_on(self) -> bool:
        """True if it has an address."""
        return bool(self.url) or self.url_file is not None


class WebhookReceiver(Receiver):
    """A receiver of CloudEvents, one a request."""

    outlet = "flowdiff.notify.webhook:Webhook"
    secret: SecretStr | None = None
    """Key of the signature (HMAC-SHA256, Standard Webhooks); none: nothing is signed."""
    secret_file: Path | None = None
    """File with the key."""

    @model_validator(mode="after")
    def _can_sign(self) -> Self:
        if self.secret is not None:
            signing_key(self.secret.get_secret_value().encode())
        return self


class ChatReceiver(Receiver):
    """An incoming hook of a chat."""

    outlet = "flowdiff.notify.chat:Chat"
    template: Path | None = None
    """File with a Jinja template of the message; none: the one that is shipped."""


class AlertReceiver(Receiver):
    """An Alertmanager."""

    outlet = "flowdiff.notify.alertmanager:Alertmanager"


class LogReceiver(Receiver):
    """A Collector of OpenTelemetry."""

    outlet = "flowdiff.notify.otlp:Collector"


class NotifySettings(Config):
    """Settings of notifications: receivers, links, timing."""

    webhook: WebhookReceiver = WebhookReceiver()
    slack: ChatReceiver = ChatReceiver()
    """Incoming webhook of Slack."""
    teams: ChatReceiver = ChatReceiver()
    """Workflow of Teams that posts a card when a webhook request is received."""
    alertmanager: AlertReceiver = AlertReceiver()
    """Its base address; `/api/v2/alerts` is added."""
    otlp: LogReceiver = LogReceiver()
    """Address of a Collector's HTTP receiver; `/v1/logs` is added."""
    reports: _Url = ""
    """Address under which people find the lake's folder, for links to reports."""
    runbook: _Url = ""
    """Address of what to do about an incident: the annotation `runbook_url` of alerts."""
    timeout_ns: int = Field(default=10 * NS_PER_SECOND, ge=NS_PER_SECOND, le=60 * NS_PER_SECOND)
    """A receiver that has not answered whole by then is tried again later."""
    repeat_ns: int = Field(default=60 * NS_PER_SECOND, ge=NS_PER_SECOND, le=1800 * NS_PER_SECOND)
    """Alertmanager hears of every open incident this often; an alert that it does not hear of again ends
    after `alert_lasts_ns`."""
    alert_lasts_ns: Expert[int] = Field(
        default=240 * NS_PER_SECOND, ge=60 * NS_PER_SECOND, le=3600 * NS_PER_SECOND
    )
    """Time after which an alert that is not repeated ends: a minute more than `repeat_ns` at least."""
    over_ns: Expert[int] = Field(default=900 * NS_PER_SECOND, ge=0, le=86_400 * NS_PER_SECOND)
    """Time for which Alertmanager is told that an incident is over."""
    first_wait_ns: Expert[int] = Field(default=NS_PER_SECOND, ge=10**6)
    """Pause after the first failure to send; it doubles with every further one."""
    longest_wait_ns: Expert[int] = Field(default=300 * NS_PER_SECOND, ge=10**6)
    """Longest pause between attempts, also if the receiver asks for a longer one (Retry-After)."""
    refusals: Expert[int] = Field(default=3, ge=1)
    """Attempts at an event that the receiver refuses as invalid; then it is given up."""
    patience_ns: Expert[int] = Field(default=5 * NS_PER_SECOND, ge=0, le=60 * NS_PER_SECOND)
    """Time for sending pending messages when the watch ends; the rest is sent when it starts again."""
    kept_events: Expert[int] = Field(default=4_096, ge=1)
    """Events remembered as sent, for each receiver; older ones are not sent."""
    max_text_chars: Expert[int] = Field(default=600, ge=16)
    """Characters of a text in a message, at most."""
    max_examples: Expert[int] = Field(default=3, ge=0)
    """Example requests that a message names, at most."""
    max_message_bytes: Expert[int] = Field(default=256 * 1024, ge=1024)
    """A larger message is given up: less than Alertmanager and chats accept, more than is sent."""

    @model_validator(mode="after")
    def _is_repeated_in_time(self) -> Self:
        if self.alert_lasts_ns < self.repeat_ns + 60 * NS_PER_SECOND:
            raise ValueError("alert_lasts_ns must be a minute more than repeat_ns at least")
        return self
