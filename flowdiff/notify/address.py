"""Validate and parse the address of a receiver."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

MOST_CHARACTERS: Final = 2048
_PLAIN: Final = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Address:
    """Parsed address; printed without its path, which may be secret."""

    is_tls: bool
    host: str
    port: int
    target: str
    """Path and query."""

    @property
    def is_private(self) -> bool:
        """True if messages cannot be read on the way."""
        return self.is_tls or is_loopback(self.host)

    def __str__(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://{self.host}:{self.port}"

    __repr__ = __str__


def address_of(url: str, below: str = "") -> Address:
    """Parsed address; `below` is appended to its path. Raises ValueError, whose text has no part of it."""
    if len(url) > MOST_CHARACTERS or not _PLAIN.fullmatch(url):
        raise ValueError("write a plain address: printable ASCII, no spaces")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("the address cannot be read") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("write https://host/path, or http://host/path")
    if parts.username is not None or parts.password is not None:
        raise ValueError("no name or password belongs into an address: give token_file, or url_file")
    if parts.fragment:
        raise ValueError("an address ends before #")
    if port == 0 or _is_no_receiver(parts.hostname):
        raise ValueError("nobody receives there")
    path = parts.path.rstrip("/") + below if below else parts.path or "/"
    is_tls = parts.scheme == "https"
    return Address(
        is_tls,
        parts.hostname,
        port or (443 if is_tls else 80),
        path + (f"?{parts.query}" if parts.query else ""),
    )


def is_loopback(host: str) -> bool:
    """True if the host is this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_no_receiver(host: str) -> bool:
    """True for an address of no machine, or of a link-local service, where clouds provide credentials."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return False
    return found.is_unspecified or found.is_multicast or found.is_link_local
