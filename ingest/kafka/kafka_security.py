"""Convert security settings to kafka-python's arguments: TLS, passwords, tokens. Secrets are read only here,
when a client is created."""

from __future__ import annotations

import json
import math
import ssl
import threading
import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from kafka.errors import KafkaConnectionError
from kafka.net.sasl.oauth import AbstractTokenProvider
from pydantic import SecretStr

from ingest.http import exchange
from ingest.http.address import address_of
from ingest.http.exchange import ExchangeError
from ingest.kafka.kafka_settings import KafkaSecurity, Mechanism
from schemas.errors import ConfigError


def client_security(security: KafkaSecurity) -> dict[str, Any]:
    """Keyword arguments of every kafka-python client. Raises ConfigError for files that cannot be used."""
    arguments: dict[str, Any] = {"security_protocol": security.protocol.value}
    if security.protocol.has_tls:
        arguments["ssl_context"] = tls_context(security)
        arguments["ssl_check_hostname"] = security.check_hostname
    if security.protocol.has_sasl:
        arguments["sasl_mechanism"] = security.mechanism.value
        if security.mechanism is Mechanism.OAUTHBEARER:
            arguments["sasl_oauth_token_provider"] = token_provider(security)
        else:
            arguments["sasl_plain_username"] = security.username
            arguments["sasl_plain_password"] = needed_secret(security, "password")
    return arguments


SECRETS: Final = {
    "password": "FLOWDIFF_KAFKA_SECURITY_PASSWORD",
    "key_password": "FLOWDIFF_KAFKA_SECURITY_KEY_PASSWORD",
    "client_secret": "FLOWDIFF_KAFKA_SECURITY_CLIENT_SECRET",
}
"""Name of a secret setting -> environment variable that may contain the secret, instead of a file."""


def tls_context(security: KafkaSecurity) -> ssl.SSLContext:
    """TLS context for clients: version 1.2 or newer, with certificates checked. Raises ConfigError."""
    try:
        context = ssl.create_default_context(cafile=security.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"The authorities in '{security.ca_file}' cannot be used: {_why(error)}.",
            remedy="Name a PEM file.",
        ) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = security.check_hostname
    if security.certificate_file is not None:
        password = secret(security.key_password, security.key_password_file)
        try:
            # Without a password OpenSSL would prompt at the terminal.
            context.load_cert_chain(security.certificate_file, security.key_file, password or (lambda: ""))
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"The certificate '{security.certificate_file}' or its key cannot be used: {_why(error)}.",
                remedy="Name PEM files, and the password of an encrypted key.",
            ) from error
    return context


def _why(error: OSError) -> str:
    return error.strerror or str(error)


def needed_secret(security: KafkaSecurity, name: str) -> str:
    """Value of the secret setting `name`, or content of the file in the setting `<name>_file`.

    Raises ConfigError if neither is set.
    """
    found = secret(getattr(security, name), getattr(security, f"{name}_file"))
    if found is None:
        raise ConfigError(
            f"{security.mechanism} needs a {name.replace('_', ' ')}.",
            remedy=f"Set {SECRETS[name]}, or name a file: {name}_file.",
        )
    return found


def secret(value: SecretStr | None, file: Path | None) -> str | None:
    """Secret from the setting `value`, else from `file`; None if both are None.

    Raises ConfigError, whose message never contains the secret.
    """
    if value is not None:
        return value.get_secret_value()
    if file is None:
        return None
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(
            f"The secret in '{file}' cannot be read: {why}.", remedy="Check the path."
        ) from error


_EARLY: Final = 0.2
"""Share of a token's lifetime, in [0, 1], that remains when the token is renewed."""
_MAX_ANSWER_BYTES: Final = 2**20


class TokenError(KafkaConnectionError):  # type: ignore[misc]  # kafka-python is not typed
    """No token is available. The message gives the reason and contains nothing secret.

    A connection without a token fails like any other, and is retried later.
    """

    def __str__(self) -> str:
        return str(self.args[0])


class FileTokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python is not typed
    """Provider of a token that is read from a file every time it is used."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def token(self) -> str:
        """Current token. Raises TokenError."""
        try:
            return self._file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not ASCII"
            raise TokenError(f"the token file '{self._file}' cannot be read: {why}") from None


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python is not typed
    """Provider of tokens from an authorization server (RFC 6749, 4.4); a token is used for four fifths of its
    lifetime.

    After a request that the server refuses or does not answer in time, no further request is sent for
    `again_s` seconds, at most a fifth of the last token's life: until then, callers get the previous token
    while it is valid, else the same error.
    """

    def __init__(
        self,
        url: str,
        client_id: str,
        read_secret: Callable[[], str],
        scope: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        timeout_s: float,
        again_s: float,
    ) -> None:
        """timeout_s: time limit for all steps of a request together, s. again_s: pause after a failed
        request, s."""
        super().__init__()
        self._url, self._client_id, self._read_secret, self._scope = url, client_id, read_secret, scope
        self._clock = clock
        self._timeout_s, self._again_s = timeout_s, again_s
        self._lock = threading.Lock()
        self._token = ""
        self._ends_at = self._renew_at = self._again_at = -math.inf
        self._early_s = math.inf
        """Time before the end of a token's life at which it is renewed, s; infinite before the first one."""
        self._failure = ""

    def token(self) -> str:
        """A valid token, requested from the server if necessary. Raises TokenError."""
        with self._lock:
            now = self._clock()
            if now < self._renew_at or (now < self._again_at and now < self._ends_at):
                return self._token
            if now < self._again_at:
                raise TokenError(self._failure)
            try:
                self._token, life_s = self._ask()
            except TokenError as error:
                self._failure = str(error)
                # The server may not have said how long the last token lives: it holds for one call.
                self._again_at = self._clock() + min(self._again_s, self._early_s or self._again_s)
                if self._clock() >= self._ends_at:
                    raise
            else:
                now = self._clock()
                self._early_s = _EARLY * life_s
                self._ends_at, self._renew_at = now + life_s, now + life_s - self._early_s
            return self._token

    def _ask(self) -> tuple[str, float]:
        """Request a new token: (token, lifetime in s). Raises TokenError."""
        try:
            client_secret = self._read_secret()
        except ConfigError as error:
            # The file may be back at the next request, so a running process does not end.
            raise TokenError(f"{error.message[:1].lower()}{error.message[1:].rstrip('.')}") from None
        form = {
            "grant_type": "client_credentials",
            "client_id": self._client_id,
            "client_secret": client_secret,
        }
        if self._scope is not None:
            form["scope"] = self._scope
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        try:
            answer = exchange.post(
                address_of(self._url),
                urlencode(form).encode(),
                headers,
                self._timeout_s,
                most_bytes=_MAX_ANSWER_BYTES,
            )
            if answer.status != HTTPStatus.OK:
                raise TokenError(f"{self._url} answers {answer.status}{answer.moved}")
            grant = json.loads(answer.body)
            return str(grant["access_token"]), float(grant.get("expires_in", 0))
        except ExchangeError as error:
            raise TokenError(f"no token from {self._url}: {error}") from None
        except (ValueError, KeyError, TypeError) as error:
            # The exception's text may contain the answer.
            raise TokenError(
                f"no token from {self._url}: it answered none ({type(error).__name__})"
            ) from None


def token_provider(security: KafkaSecurity) -> AbstractTokenProvider:
    """Provider of tokens as configured: from a file or from an authorization server."""
    if security.token_file is not None:
        return FileTokens(security.token_file)
    assert security.token_url is not None, "checked by the settings"
    assert security.client_id is not None, "checked by the settings"

    read_secret = partial(needed_secret, security, "client_secret")
    return ClientCredentials(
        security.token_url,
        security.client_id,
        read_secret,
        security.token_scope,
        timeout_s=security.token_timeout_ms / 1000,
        again_s=security.token_retry_ms / 1000,
    )
