"""Receivers of incidents. Addresses are validated here; secrets come from the environment or from files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from flowdiff.notify.signature import signing_key
from ingest.http.address import address_of
from schemas.config import Config
from schemas.windows import NS_PER_SECOND


def _checked(url: str) -> str:
    if url:
        address_of(url)
    return url


_Url = Annotated[str, AfterValidator(_checked)]
"""Address, or empty."""


class Receiver(Config):
    """One receiver; it is notified if it has an address."""

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

    template: Path | None = None
    """File with a Jinja template of the message; none: the one that is shipped."""


class NotifySettings(Config):
    """Settings of notifications: receivers, links, timing."""

    webhook: WebhookReceiver = WebhookReceiver()
    slack: ChatReceiver = ChatReceiver()
    """Incoming webhook of Slack."""
    teams: ChatReceiver = ChatReceiver()
    """Workflow of Teams that posts a card when a webhook request is received."""
    alertmanager: Receiver = Receiver()
    """Its base address; `/api/v2/alerts` is added."""
    otlp: Receiver = Receiver()
    """Address of a Collector's HTTP receiver; `/v1/logs` is added."""
    reports: _Url = ""
    """Address under which people find the lake's folder, for links to reports."""
    runbook: _Url = ""
    """Address of what to do about an incident: the annotation `runbook_url` of alerts."""
    timeout_ns: int = Field(default=10 * NS_PER_SECOND, ge=NS_PER_SECOND, le=60 * NS_PER_SECOND)
    """A receiver that has not answered whole by then is tried again later."""
    repeat_ns: int = Field(default=60 * NS_PER_SECOND, ge=NS_PER_SECOND, le=180 * NS_PER_SECOND)
    """Alertmanager hears of every open incident this often; it forgets what it has not heard of for four
    minutes."""
