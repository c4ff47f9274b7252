"""Users of the server and their roles: by a token, by a trusted proxy's header, or everybody on loopback.

A token file has a line per user: `ROLE NAME TOKEN`. A token is sent as `Authorization: Bearer TOKEN`, or in
the cookie that a browser gets for it. Only digests are held in memory.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Final

from starlette.requests import HTTPConnection

from schemas.errors import ConfigError
from schemas.masking import masked_address

COOKIE: Final = "flowdiff_token"
LEAST_TOKEN: Final = 16
"""Minimum number of characters in a token: a shorter one could be guessed."""


class Role(IntEnum):
    """Rights of a user; each role includes the rights of all roles with smaller values."""

    NONE = 0
    READ = 1
    """View pages, and results that exist already."""
    RUN = 2
    """Start comparisons and queries."""
    MARK = 3
    """Change the state of the lake's watch: accept an incident."""


@dataclass(frozen=True, slots=True)
class User:
    """A user of the server, with name and role."""

    name: str
    role: Role


NOBODY: Final = User("", Role.NONE)


@dataclass(frozen=True, slots=True)
class Access:
    """Rules by which the server identifies the user of a request."""

    tokens: Mapping[bytes, User] = field(default_factory=dict)
    """SHA-256 of a token -> its user."""
    user_header: str = ""
    """Name of the header in which a proxy names the user; empty: no header is trusted."""
    proxies: tuple[str, ...] = ()
    """Addresses or networks of the proxies that may send `user_header`."""
    proxy_role: Role = Role.RUN
    """Role of all users that a proxy names."""

    @property
    def is_open(self) -> bool:
        """True if no authentication is configured: everybody has every right."""
        return not self.tokens and not self.user_header

    def user(self, connection: HTTPConnection) -> User:
        """User who sent a request; NOBODY if the request is not authenticated."""
        if self.is_open:
            return User("", Role.MARK)
        if self.user_header and (name := self._named(connection)):
            return User(name, self.proxy_role)
        scheme, _, token = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            token = connection.cookies.get(COOKIE, "")
        return self.of_token(token)

    def of_token(self, token: str) -> User:
        """User with this token; NOBODY if it is unknown."""
        return self.tokens.get(digest(token.strip()), NOBODY) if token.strip() else NOBODY

    def _named(self, connection: HTTPConnection) -> str:
        """Name of the user in the header `user_header`, if a trusted proxy sent the request; else empty."""
        if connection.client is None:
            return ""
        host = ip_address(connection.client.host)
        if not any(host in ip_network(proxy) for proxy in self.proxies):
            return ""
        names = connection.headers.getlist(self.user_header)
        return names[0].strip()[:100] if len(names) == 1 else ""


def digest(token: str) -> bytes:
    """SHA-256 of a token."""
    return hashlib.sha256(token.encode()).digest()


def read_tokens(path: Path) -> dict[bytes, User]:
    """SHA-256 of a token -> user, from a token file. Raises ConfigError for an invalid line, or a file that
    others may read.
    """
    try:
        mode = path.stat().st_mode
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The tokens '{path}' cannot be read: {error}.") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"Others may read the tokens '{path}'.", remedy=f"Run: chmod 600 {path}.")
    found: dict[bytes, User] = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 3 or words[0] not in ("read", "run", "mark") or len(words[2]) < LEAST_TOKEN:
            raise ConfigError(
                f"Line {number} of '{path}' is no token.",
                remedy=f"Write: read|run|mark NAME TOKEN, the token of {LEAST_TOKEN} characters at least.",
            )
        found[digest(words[2])] = User(words[1], Role[words[0].upper()])
    if not found:
        raise ConfigError(f"The file '{path}' has no token.", remedy="Write: mark NAME TOKEN.")
    return found


def checked_proxies(header: str, proxies: tuple[str, ...]) -> tuple[str, ...]:
    """Return `proxies` if all are addresses or networks. Raises ConfigError if not, and for a header without
    proxies or proxies without a header.
    """
    for proxy in proxies:
        try:
            ip_network(proxy)
        except ValueError as error:
            told = masked_address(f"'{proxy}' is no address of a proxy: {error}.")
            raise ConfigError(told) from error
    if bool(header) != bool(proxies):
        raise ConfigError(
            "--user-header and --proxy belong together.", remedy="Name the proxies that may send it."
        )
    return proxies
