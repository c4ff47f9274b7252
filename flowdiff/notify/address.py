"""Check and part the address of a receiver."""

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
    """An address in its parts; shown without its path, which may hold a secret."""

    is_tls: bool
    host: str
    port: int
    target: str
    """Path and query, as they are asked for."""

    @property
    def is_private(self) -> bool:
        """Whether nobody on the way reads what is sent."""
        return self.is_tls or is_loopback(self.host)

    def __str__(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://{self.host}:{self.port}"

    __repr__ = __str__


def address_of(url: str, below: str = "") -> Address:
    """The address; `below` is added to its path. Raises ValueError, in whose text no part of it stands."""
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
    """Whether only this machine is reached by it."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_no_receiver(host: str) -> bool:
    """Whether it is an address of no machine, or one where clouds give out credentials (link-local)."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return False
    return found.is_unspecified or found.is_multicast or found.is_link_local
