"""`flowdiff top` and a server that answers a byte now and then."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

from flowdiff.live import top_view as scraping
from flowdiff.live.top_view import scrape
from schemas.errors import InputError


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"])
def test_a_server_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch, head: bytes) -> None:
    monkeypatch.setattr(scraping, "TIMEOUT_S", 0.5)
    is_over = threading.Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(head)
            while not is_over.wait(0.1):
                connection.sendall(b"H")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=(server,))
        thread.start()
        began = time.monotonic()
        with pytest.raises(InputError, match="does not answer: timed out"):
            scrape(f"http://127.0.0.1:{server.getsockname()[1]}/metrics", 0.0)
        assert time.monotonic() - began < 30  # it would be for ever
        is_over.set()
        thread.join()
