"""Address of a request's trace in another tool: `https://jaeger/trace/{trace_id}`."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from schemas.errors import ConfigError

TRACE_ID: Final = "{trace_id}"
"""Placeholder in the address, replaced by the request's id."""


def parse_trace_url(text: str) -> str:
    """Return `text` if it is an http(s) address that contains TRACE_ID. Raises ConfigError."""
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc or TRACE_ID not in text:
        raise ConfigError(
            f"'{text}' is not the address of a trace.", remedy=f"Write https://HOST/…/{TRACE_ID}."
        )
    return text
