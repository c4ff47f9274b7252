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
"""Type of a receiver's address: https:// or http://, or empty."""


class Receiver(Config):
    """One receiver; it is notified if it has an address."""

    outlet: ClassVar[str] = ""
    """`module:class` of the messages to the receiver, a subclass of `flowdiff.notify.outlet.Outlet`; imported
    on use.
    """
    url: _Url = ""
    """URL of the receiver, https:// or http://; empty: no messages are sent to it."""
    url_file: Path | None = None
    """File with the receiver's URL, where the URL itself is a secret."""
    token: SecretStr | None = None
    """Token sent as `Authorization: Bearer`, over https or to this machine only."""
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
        """True if the receiver has an address, and is therefore notified."""
        return bool(self.url) or self.url_file is not None


class WebhookReceiver(Receiver):
    """A webhook that receives CloudEvents, one per HTTP request."""

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
    """An incoming webhook of a chat service, which receives messages on incidents."""

    outlet = "flowdiff.notify.chat:Chat"
    template: Path | None = None
    """File with a Jinja template of the message; none: the one that is shipped."""


class AlertReceiver(Receiver):
    """An Alertmanager, which receives incidents as alerts."""

    outlet = "flowdiff.notify.alertmanager:Alertmanager"


class LogReceiver(Receiver):
    """An OpenTelemetry Collector, which receives events of incidents as log records."""

    outlet = "flowdiff.notify.otlp:Collector"


class NotifySettings(Config):
    """Settings of notifications: receivers, links, timing."""

    webhook: WebhookReceiver = WebhookReceiver()
    slack: ChatReceiver = ChatReceiver()
    """Slack: URL of an incoming webhook."""
    teams: ChatReceiver = ChatReceiver()
    """Teams: URL of a workflow that posts a card when it receives a webhook request."""
    alertmanager: AlertReceiver = AlertReceiver()
    """Alertmanager: base URL, to which `/api/v2/alerts` is added."""
    otlp: LogReceiver = LogReceiver()
    """OpenTelemetry: URL of a Collector's HTTP receiver, to which `/v1/logs` is added."""
    reports: _Url = ""
    """URL under which people find the lake's folder, for links to reports."""
    runbook: _Url = ""
    """URL of the runbook for incidents, sent as the annotation `runbook_url` of alerts."""
    timeout_ns: int = Field(default=10 * NS_PER_SECOND, ge=NS_PER_SECOND, le=60 * NS_PER_SECOND)
    """Time limit for a receiver's whole answer; after that the message is sent again later."""
    repeat_ns: int = Field(default=60 * NS_PER_SECOND, ge=NS_PER_SECOND, le=1800 * NS_PER_SECOND)
    """Interval at which every open incident is sent to Alertmanager; an alert that is not sent again ends
    after `alert_lasts_ns`.
    """
    alert_lasts_ns: Expert[int] = Field(
        default=240 * NS_PER_SECOND, ge=60 * NS_PER_SECOND, le=3600 * NS_PER_SECOND
    )
    """Time after which an alert that is not sent again ends; at least a minute more than `repeat_ns`."""
    over_ns: Expert[int] = Field(default=900 * NS_PER_SECOND, ge=0, le=86_400 * NS_PER_SECOND)
    """Time for which Alertmanager is told that an incident has ended."""
    first_wait_ns: Expert[int] = Field(default=NS_PER_SECOND, ge=10**6)
    """Pause after the first failed attempt to send; it doubles with every further one."""
    longest_wait_ns: Expert[int] = Field(default=300 * NS_PER_SECOND, ge=10**6)
    """Maximum pause between attempts, also if the receiver asks for more (Retry-After)."""
    refusals: Expert[int] = Field(default=3, ge=1)
    """Number of attempts at an event that the receiver refuses as invalid before it is given up."""
    patience_ns: Expert[int] = Field(default=5 * NS_PER_SECOND, ge=0, le=60 * NS_PER_SECOND)
    """Time for sending pending messages when the watch ends; the rest is sent at its next start."""
    kept_events: Expert[int] = Field(default=4_096, ge=1)
    """Number of sent events remembered per receiver, so that none is sent twice; older events are never sent.
    """
    max_text_chars: Expert[int] = Field(default=600, ge=16)
    """Maximum length of a text in a message, in characters."""
    max_examples: Expert[int] = Field(default=3, ge=0)
    """Maximum number of example requests in a message."""
    max_message_bytes: Expert[int] = Field(default=256 * 1024, ge=1024)
    """Maximum size of a message, below the limits of Alertmanager and of chats; a larger one is given up."""

    @model_validator(mode="after")
    def _is_repeated_in_time(self) -> Self:
        if self.alert_lasts_ns < self.repeat_ns + 60 * NS_PER_SECOND:
            raise ValueError("alert_lasts_ns must be a minute more than repeat_ns at least")
        return self
