"""Open a listening socket."""

from __future__ import annotations

import os
import socket

from ingest.http.address import split_address
from schemas.errors import ConfigError


def listening_socket(address: str, key: str, remedy: str) -> socket.socket:
    """Open a socket that listens on `address`, `host:port`; on IPv6 `::` it accepts IPv4 too.

    Raises ConfigError, which names the setting `key` and contains `remedy`.
    """
    host, port = split_address(address)
    try:
        if ":" not in host:
            return socket.create_server((host, port))
        return socket.create_server(
            (host, port), family=socket.AF_INET6, dualstack_ipv6=socket.has_dualstack_ipv6()
        )
    except OSError as error:
        # Python adds to the system's text which address it was.
        why = os.strerror(error.errno) if error.errno else error
        raise ConfigError(f"{key} '{address}' cannot be listened on: {why}.", remedy=remedy) from error
