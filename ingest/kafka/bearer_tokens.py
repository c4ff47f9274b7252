"""Tokens for OAUTHBEARER: from a file that something else keeps fresh, or for a client's secret."""

from __future__ import annotations

import http.client
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kafka.net.sasl.oauth import AbstractTokenProvider

from ingest.kafka.kafka_security import needed_secret
from ingest.kafka.kafka_settings import KafkaSecurity

REQUEST_TIMEOUT_S: Final = 5.0
"""For a token. The client's other work waits meanwhile; heartbeats have several times as long."""
_EARLY: Final = 0.2
"""A token is renewed when this share of its life is left."""
_MAX_ANSWER_BYTES: Final = 2**20


class TokenError(RuntimeError):
    """No token could be had. Says why, and nothing secret."""


class FileTokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python is not typed
    """The token that a file holds at the moment."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def token(self) -> str:
        """Raises TokenError."""
        try:
            return self._file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise TokenError(f"the token file '{self._file}' cannot be read: {error}") from None


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python is not typed
    """Tokens from an authority (RFC 6749, 4.4), each used until a fifth of its life is left."""

    def __init__(
        self,
        url: str,
        client_id: str,
        read_secret: Callable[[], str],
        scope: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._url, self._client_id, self._read_secret, self._scope = url, client_id, read_secret, scope
        self._clock = clock
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = 0.0

    def token(self) -> str:
        """Raises TokenError where there is no token that still holds and none can be had."""
        with self._lock:
            if not self._token or self._clock() >= self._renew_at:
                self._token, life_s = self._ask()
                self._renew_at = self._clock() + (1 - _EARLY) * life_s
            return self._token

    def _ask(self) -> tuple[str, float]:
        form = {
            "grant_type": "client_credentials",
            "client_id": self._client_id,
            "client_secret": self._read_secret(),
        }
        if self._scope is not None:
            form["scope"] = self._scope
        data, headers = urllib.parse.urlencode(form).encode(), {"Accept": "application/json"}
        try:
            request = urllib.request.Request(self._url, data, headers)
            with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT_S) as answer:
                told = json.loads(answer.read(_MAX_ANSWER_BYTES))
            return str(told["access_token"]), float(told.get("expires_in", 0))
        except urllib.error.HTTPError as error:
            raise TokenError(f"{self._url} answers {error.code} {error.reason}") from None
        except http.client.HTTPException as error:
            # Its text is what came.
            raise TokenError(f"{self._url} does not answer as HTTP does: {type(error).__name__}") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise TokenError(f"no token from {self._url}: {error}") from None


def token_provider(security: KafkaSecurity) -> AbstractTokenProvider:
    """As the settings say."""
    if security.token_file is not None:
        return FileTokens(security.token_file)
    assert security.token_url is not None, "checked by the settings"
    assert security.client_id is not None, "checked by the settings"

    def read_secret() -> str:
        return needed_secret(security, "client_secret")

    return ClientCredentials(security.token_url, security.client_id, read_secret, security.token_scope)
