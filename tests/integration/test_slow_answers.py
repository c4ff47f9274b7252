"""Whoever is sent to is slow, hostile, or somebody else: one deadline holds for all of it, at every step."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from oracles.slow_servers import AGES_S, Slow, answer, dripping, request_of, shaking_slowly, silent, slow
from pydantic import ValidationError

from flowdiff.notify.post import Message, SendError
from flowdiff.notify.post import post as notify
from ingest.http.address import Address, address_of
from ingest.http.exchange import ExchangeError, post
from ingest.kafka.kafka_security import ClientCredentials, TokenError
from ingest.kafka.kafka_settings import KafkaSecurity

SOON_S = 0.5
GRANT = json.dumps({"access_token": "t" * 40, "expires_in": 600}).encode()


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    files = ["-keyout", str(folder / "server.key"), "-out", str(folder / "server.pem")]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*words.split(), *files, *names], check=True, capture_output=True)
    return folder


@pytest.fixture
def trusted(tls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tls / "server.pem"))


def at(server: Slow, scheme: str = "http", host: str = "127.0.0.1") -> Address:
    return address_of(f"{scheme}://{host}:{server.port}/x")


def sent(address: Address, timeout_s: float = SOON_S, most_bytes: int = 2**16) -> bytes:
    return post(address, b"{}", {}, timeout_s, most_bytes=most_bytes).body


def late(server: Slow, address: Address) -> None:
    """Assert that it is given up while the server goes on."""
    with pytest.raises(ExchangeError, match="no whole answer in time"):
        sent(address)
    assert server.accepted == 1
    assert server.finished == 0


@pytest.mark.usefixtures("trusted")
def test_a_server_that_takes_its_time_within_the_deadline_is_waited_for(tls: Path) -> None:
    with slow(shaking_slowly(tls, 0.1)) as server:
        assert sent(at(server, "https", "localhost"), 20) == b""
    with slow(dripping(answer(GRANT), 0.001)) as server:
        assert sent(at(server), 20) == GRANT


def test_no_answer_to_a_handshake_is_late() -> None:
    with slow(silent) as server:
        late(server, at(server, "https"))


@pytest.mark.usefixtures("trusted")
def test_steps_share_one_deadline(tls: Path) -> None:
    """Each of them is done in time by itself: hello, handshake, answer."""
    with slow(shaking_slowly(tls, 0.7 * SOON_S)) as server:
        late(server, at(server, "https", "localhost"))


def test_a_handshake_that_drips_is_late() -> None:
    """Records of TLS, a byte at a time: no read waits long."""

    def talk(server: Slow, connection: socket.socket) -> None:
        connection.sendall(b"\x16\x03\x03\x3f\xff")
        for _ in range(int(AGES_S / 0.05)):
            connection.sendall(b"\x02")
            server.wait(0.05)

    with slow(talk) as server:
        late(server, at(server, "https"))


def test_an_answer_that_drips_is_late() -> None:
    with slow(dripping(answer(b"x" * 1000), 0.05)) as server:
        late(server, at(server))


def test_a_body_that_nobody_takes_is_late() -> None:
    with slow(silent) as server, pytest.raises(ExchangeError, match="no whole answer in time"):
        post(at(server), b"x" * 2**25, {}, SOON_S)


def test_a_connection_that_nobody_accepts_is_late() -> None:
    """Its queue is full: the system drops what else comes."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        place = server.getsockname()
        waiting = [socket.socket() for _ in range(8)]
        try:
            for each in waiting:
                each.setblocking(False)
                each.connect_ex(place)
            with pytest.raises(ExchangeError, match="no whole answer in time"):
                sent(address_of(f"http://127.0.0.1:{place[1]}/"))
        finally:
            for each in waiting:
                each.close()


def test_a_name_that_nobody_resolves_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def stuck(*_: object, **__: object) -> list[Any]:
        over.wait(AGES_S)
        return []

    address = address_of("http://receiver.example/")
    monkeypatch.setattr(socket, "getaddrinfo", stuck)
    try:
        with pytest.raises(ExchangeError, match="no whole answer in time"):
            sent(address)
    finally:
        over.set()
        for thread in threading.enumerate():
            if thread.name == "resolve":
                thread.join()


def test_an_answer_without_end_is_not_kept() -> None:
    with slow(dripping(answer(b"x" * 100), 0)) as server, pytest.raises(ExchangeError, match="more than 99"):
        sent(at(server), 20, most_bytes=99)


@pytest.fixture
def resolving(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Addresses of names, as a resolver gives them that somebody else answers."""
    names: dict[str, list[str]] = {}
    resolve = socket.getaddrinfo

    def answered(host: Any, port: Any, *given: Any, **named: Any) -> list[Any]:
        if host in names and not named.get("flags", 0) & socket.AI_NUMERICHOST:
            return [found for ip in names[host] for found in resolve(ip, port, *given, **named)]
        return resolve(host, port, *given, **named)

    monkeypatch.setattr(socket, "getaddrinfo", answered)
    return names


@pytest.mark.parametrize(
    "ip",
    [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "::ffff:a9fe:a9fe",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "fe80::1",
        "fe80::1%lo",
        "fd00:ec2::254",
        "100.100.100.200",
        "168.63.129.16",
        "0.0.0.0",
        "::",
        "::ffff:0.0.0.0",
        "224.0.0.1",
    ],
)
def test_addresses_are_checked_as_they_are_connected_to(
    ip: str, resolving: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name was of another machine when it was set; nobody is connected to where one address is refused."""

    def connected(*_: object) -> None:
        raise AssertionError("somebody was connected to")

    monkeypatch.setattr(socket.socket, "connect", connected)
    for found in ([ip], ["127.0.0.1", ip]):
        resolving["receiver.example"] = found
        with pytest.raises(SendError, match="nothing is sent there"):
            notify(Message(address_of("http://receiver.example/"), b"{}", {}), 20)


@pytest.mark.parametrize("ip", ["127.0.0.1", "::ffff:127.0.0.1"])
def test_addresses_of_machines_are_connected_to(ip: str, resolving: dict[str, list[str]]) -> None:
    resolving["receiver.example"] = [ip]
    with slow(dripping(answer(b"ok"), 0)) as server:
        assert sent(at(server, host="receiver.example"), 20) == b"ok"


def test_the_second_address_of_a_name_is_tried(resolving: dict[str, list[str]]) -> None:
    resolving["receiver.example"] = ["127.0.0.2", "127.0.0.1"]
    with slow(dripping(answer(b"ok"), 0)) as server:
        assert sent(at(server, host="receiver.example"), 20) == b"ok"


def test_a_certificate_that_is_not_trusted_is_said(tls: Path) -> None:
    with slow(shaking_slowly(tls, 0)) as server, pytest.raises(ExchangeError, match="not trusted"):
        sent(at(server, "https", "localhost"), 20)


# Tokens


def tokens(
    server: Slow, clock: list[float] | None = None, timeout_s: float = SOON_S, again_s: float = 1
) -> ClientCredentials:
    now = clock or [0.0]
    return ClientCredentials(
        f"http://127.0.0.1:{server.port}/token",
        "flowdiff",
        lambda: "s3cret",
        clock=lambda: now[0],
        timeout_s=timeout_s,
        again_s=again_s,
    )


def test_a_token_that_drips_is_given_up() -> None:
    with slow(dripping(answer(GRANT), 0.1)) as server:
        with pytest.raises(TokenError, match="no whole answer in time"):
            tokens(server).token()
        assert server.finished == 0


def test_whoever_waits_for_a_token_that_does_not_come_waits_once() -> None:
    """Connections of a client, each in turn: the second one hears of the failure of the first."""
    with slow(silent) as server:
        clock = [0.0]
        mine = tokens(server, clock)
        for _ in range(5):
            with pytest.raises(TokenError, match="no whole answer in time"):
                mine.token()
        assert server.accepted == 1
        clock[0] = 1.5
        with pytest.raises(TokenError):
            mine.token()
        assert server.accepted == 2


def test_a_token_that_still_holds_is_used_while_it_cannot_be_renewed() -> None:
    """And a new one as soon as it can."""
    grants = [b"first", None, None, b"second"]

    def talk(server: Slow, connection: socket.socket) -> None:
        request_of(connection)
        token = grants.pop(0)
        if token is None:
            server.wait(AGES_S)
        else:
            body = json.dumps({"access_token": token.decode(), "expires_in": 100}).encode()
            connection.sendall(answer(body))

    with slow(talk) as server:
        clock = [0.0]
        mine = tokens(server, clock)
        assert mine.token() == "first"
        clock[0] = 81
        assert mine.token() == "first"  # asked for, in vain
        assert mine.token() == "first"  # not asked for again so soon
        clock[0] = 101
        with pytest.raises(TokenError, match="no whole answer in time"):
            mine.token()
        clock[0] = 103
        assert mine.token() == "second"
        assert grants == []


@contextmanager
def answering(answers: list[bytes]) -> Iterator[Slow]:
    """Server that gives the answers, one a request, in order."""

    def talk(_: Slow, connection: socket.socket) -> None:
        request_of(connection)
        connection.sendall(answers.pop(0))

    with slow(talk) as server:
        yield server


def test_a_long_pause_does_not_outlast_a_token() -> None:
    """A token endpoint that fails once at a renewal is asked again within a fifth of a token's life."""
    with answering([answer(GRANT), answer(b"", "503 Unavailable"), answer(GRANT)]) as server:
        clock = [0.0]
        mine = tokens(server, clock, timeout_s=20, again_s=500)
        for share_of_life, asked in ((0, 1), (0.81, 2), (0.99, 2), (1.02, 3)):
            clock[0] = share_of_life * 600
            assert mine.token()
            assert server.accepted == asked


def test_a_pause_is_kept_after_a_token_of_unknown_life() -> None:
    endless = answer(b'{"access_token": "t"}')
    with answering([endless, answer(b"", "503 Unavailable"), answer(GRANT)]) as server:
        clock = [0.0]
        mine = tokens(server, clock, timeout_s=20, again_s=5)
        assert mine.token()
        for _ in range(3):
            with pytest.raises(TokenError, match="503"):
                mine.token()
        clock[0] = 6
        assert mine.token()
        assert server.accepted == 3


@pytest.mark.parametrize(
    "status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"]
)
def test_a_token_is_not_asked_for_elsewhere(status: str) -> None:
    with slow(dripping(answer(GRANT), 0)) as other:

        def talk(_: Slow, connection: socket.socket) -> None:
            assert b"s3cret" in request_of(connection)
            where = f"Location: http://127.0.0.1:{other.port}/token"
            connection.sendall(answer(b"", status, where))

        with slow(talk) as server, pytest.raises(TokenError, match=f"answers {status[:3]}, a redirect"):
            tokens(server, timeout_s=20).token()
        assert other.accepted == 0


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"expires_in": 5}', b'{"access_token": "x", "expires_in": "z"}']
)
def test_an_answer_without_a_token_is_said_and_not_repeated(body: bytes) -> None:
    with slow(dripping(answer(body), 0)) as server, pytest.raises(TokenError) as error:
        tokens(server, timeout_s=20).token()
    assert "it answered none" in str(error.value)
    assert "z" not in str(error.value).partition("/token")[2]


@pytest.mark.parametrize(
    "url", ["http://authority/token", "https://me:secret@authority/", "https://2852039166/", "ftp://x/"]
)
def test_an_authority_that_no_secret_goes_to_is_refused_by_the_settings(url: str) -> None:
    who = {"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER", "client_id": "x", "token_url": url}
    with pytest.raises(ValidationError, match="token_url"):
        KafkaSecurity.model_validate(who)
