"""Validate and parse an address to which messages or secrets are sent."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

MOST_CHARACTERS: Final = 2048
_PLAIN: Final = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Address:
    """Parsed address. Its text form lacks the path, which may contain a secret."""

    is_tls: bool
    host: str
    port: int
    target: str
    """Path and query of the address, as written in the request line."""

    @property
    def is_private(self) -> bool:
        """True if the connection is encrypted, or does not leave this machine."""
        return self.is_tls or is_loopback(self.host)

    def __str__(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://{self.host}:{self.port}"

    __repr__ = __str__


def split_address(address: str) -> tuple[str, int]:
    """Parse `host:port`, `[::1]:9464`, or `:9464` (all interfaces): (host, port). Raises ValueError."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise ValueError("write host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def address_of(url: str, below: str = "") -> Address:
    """Parse a URL; `below` is appended to its path. Raises ValueError, whose text contains no part of the
    URL."""
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
    if port == 0 or any(map(refusal, _numeric(parts.hostname))):
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
    """True if a host is the loopback interface of this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def refusal(ip: str) -> str:
    """Reason for not sending to an IP address, in any notation; empty if it is allowed.

    Refused are addresses that belong to no machine, and those at which clouds hand out credentials
    (link-local, and the few others in `_METADATA`), also inside an IPv6 address.
    """
    found = ipaddress.ip_address(ip.partition("%")[0])  # without the zone id of a link-local address
    inner = _wrapped(found) if isinstance(found, ipaddress.IPv6Address) else None
    for one in (found, inner):
        if one is None:
            continue
        if one.is_unspecified or one.is_multicast or one == _BROADCAST:
            return f"{one} is the address of no machine"
        if one.is_link_local or one in _METADATA:
            return f"{one} is an address of cloud metadata or of this link only"
    return ""


_BROADCAST: Final = ipaddress.ip_address("255.255.255.255")
_METADATA: Final = frozenset(
    map(
        ipaddress.ip_address,
        (
            "100.100.100.200",  # Alibaba
            "168.63.129.16",  # Azure
            "192.0.0.192",  # Oracle
            "fd00:ec2::254",  # AWS
            "fd20:ce::254",  # Google
            "fd00:42::42",  # Scaleway
        ),
    )
)
"""Addresses, besides link-local ones, from which cloud machines get their credentials."""
_NAT64: Final = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("::/96"))
"""Networks of IPv6 addresses whose last 32 bits are an IPv4 address: translated, and compatible (RFC 6052,
4291)."""


def _wrapped(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """IPv4 address that an IPv6 address contains or is translated to; None if there is none."""
    if address.teredo is not None:
        return address.teredo[1]
    found = address.ipv4_mapped or address.sixtofour
    if found is None and any(address in network for network in _NAT64) and int(address) > 1:
        found = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return found


def _numeric(host: str) -> list[str]:
    """IP addresses that `host` may be a notation of, including `2852039166` and `0xa9fea9fe`; none for a
    name. Nothing is looked up."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []
    return [str(each[4][0]) for each in found]
