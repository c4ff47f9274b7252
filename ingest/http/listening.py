"""Listen on an address."""

from __future__ import annotations

import socket

from ingest.http.address import split_address
from schemas.errors import ConfigError


def listening_socket(address: str, key: str, remedy: str) -> socket.socket:
    """Socket that listens on `host:port`; IPv6 `::` accepts IPv4 too.

    Raises ConfigError, which names the `key` of the address.
    """
    host, port = split_address(address)
    try:
        if ":" not in host:
            return socket.create_server((host, port))
        return socket.create_server(
            (host, port), family=socket.AF_INET6, dualstack_ipv6=socket.has_dualstack_ipv6()
        )
    except OSError as error:
        raise ConfigError(
            f"{key} '{address}' cannot be listened on: {error.strerror or error}.", remedy=remedy
        ) from error
