"""Every kind of listener of a real broker, and what it looks like when a setting is wrong."""

from __future__ import annotations

import base64
import http.server
import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fixtures.ingest_process import IngestProcess, records
from fixtures.kafka_bench import KafkaBench, Reader, numbered
from fixtures.kafka_broker import Broker
from kafka.admin import ACLOperation, ResourceType
from oracles import fork_server
from oracles.slow_servers import dripping, slow
from oracles.waiting import wait_until

from ingest.kafka.diagnosis import broker_problem
from ingest.kafka.kafka_security import ClientCredentials, TokenError
from ingest.kafka.kafka_settings import KafkaSecurity, KafkaSettings
from ingest.kafka.kafka_source import KafkaSource
from schemas.errors import ConfigError, InputError


@pytest.fixture(scope="module")
def bench(secure_broker: Broker) -> Iterator[KafkaBench]:
    with KafkaBench(secure_broker) as bench:
        yield bench


@pytest.fixture(scope="module")
def topic(bench: KafkaBench) -> str:
    name = bench.topic()
    bench.fill(name, numbered(0, 20))
    return name


ENDS_S = 120.0
"""Of a process, on a machine with other work."""
STOPS_S = 10.0
"""Of a process that was told to end, on a machine with other work."""
REFUSED_MS = 1_000
"""How long is tried where a refusal is waited for; a broker's first handshake can take longer."""


def settings(
    bench: KafkaBench, topic: str, *, connect_timeout_ms: int = 30_000, **security: Any
) -> KafkaSettings:
    """On the listener of the protocol; TLS by the broker's authority."""
    broker, protocol = bench.broker, security["protocol"]
    if "SSL" in protocol:
        security = {"ca_file": broker.tls / "ca.pem", **security}
    return bench.settings(
        topic,
        bootstrap=broker.listeners(protocol),
        security=security,
        connect_timeout_ms=connect_timeout_ms,
    )


def scram(bench: KafkaBench, mechanism: str = "SCRAM-SHA-512", **changed: Any) -> dict[str, Any]:
    env = bench.broker.env
    who = {"username": env["USERNAME"], "password": env["PASSWORD"]}
    return {"protocol": "SASL_SSL", "mechanism": mechanism, **who, **changed}


def mutual_tls(bench: KafkaBench, **changed: Any) -> dict[str, Any]:
    tls = bench.broker.tls
    files = {"certificate_file": tls / "client.crt", "key_file": tls / "client.key"}
    return {"protocol": "SSL", **files, **changed}


def reads(settings: KafkaSettings) -> bool:
    source = KafkaSource(settings)
    try:
        return Reader(source).read(20) == numbered(0, 20)
    finally:
        source.close()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"])
def test_passwords_over_tls(bench: KafkaBench, topic: str, mechanism: str) -> None:
    assert reads(settings(bench, topic, **scram(bench, mechanism)))


def test_scram_without_tls_and_a_password_in_a_file(bench: KafkaBench, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(bench.broker.env["PASSWORD"] + "\n")
    security = scram(bench, protocol="SASL_PLAINTEXT", password=None, password_file=file)
    assert reads(settings(bench, topic, **security))


def test_mutual_tls(bench: KafkaBench, topic: str) -> None:
    assert reads(settings(bench, topic, **mutual_tls(bench)))


def unsigned_token(seconds: float) -> str:
    """As the test broker takes them: no signature, a subject and an end."""

    def part(value: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    now = time.time()
    return f"{part({'alg': 'none'})}.{part({'sub': 'tester', 'iat': now, 'exp': now + seconds})}."


def test_token_from_a_file(bench: KafkaBench, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(unsigned_token(600))
    security = {"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER", "token_file": file}
    assert reads(settings(bench, topic, **security))


class _Authority(http.server.BaseHTTPRequestHandler):
    """Gives out tokens for the right secret (RFC 6749, 4.4)."""

    asked = 0

    def do_POST(self) -> None:
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        type(self).asked += 1
        if form["client_secret"] != ["s3cret"] or form["grant_type"] != ["client_credentials"]:
            self.send_error(401)
            return
        body = json.dumps({"access_token": unsigned_token(600), "expires_in": 600}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def authority() -> Iterator[str]:
    _Authority.asked = 0
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Authority) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/token"
        server.shutdown()
        thread.join()


@pytest.fixture
def drips() -> Iterator[str]:
    """An authority that gives a token byte by byte, a day long."""
    with slow(dripping(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 10**6, 0.1)) as server:
        yield f"http://127.0.0.1:{server.port}/token"


def test_a_process_whose_authority_drips_says_so_and_ends(
    bench: KafkaBench, topic: str, drips: str, tmp_path: Path
) -> None:
    told = settings(bench, topic, **token_url(drips, "s3cret"))
    security = {**token_url(drips, "s3cret"), "ca_file": bench.broker.tls / "ca.pem"}
    environ = {f"FLOWDIFF_KAFKA_SECURITY_{key.upper()}": str(value) for key, value in security.items()}
    words = ["ingest", "--bootstrap", told.bootstrap[0], "--topics", topic, "--lake", str(tmp_path / "lake")]
    command, log = [sys.executable, "-m", "flowdiff", *words], tmp_path / "log"
    with (
        log.open("w") as out,
        fork_server.Popen(command, env={**os.environ, **environ}, stdout=out, stderr=out) as process,
    ):
        process.wait(timeout=ENDS_S)
    said = log.read_text()
    assert process.returncode in (2, 75)
    assert "no whole answer in time" in said
    assert "Traceback" not in said


class _Renewing(_Authority):
    """Gives out tokens of a few seconds, and from some time on drips."""

    life_s = 12.0
    slow_s = 0.0
    """Seconds until it answers."""
    fails = 0
    """Number of the next requests that it answers with 503."""
    drips = threading.Event()
    asked_again = threading.Semaphore(0)
    over = threading.Event()

    def do_POST(self) -> None:
        type(self).asked += 1
        self.rfile.read(int(self.headers["Content-Length"]))
        self.over.wait(self.slow_s)
        if self.fails:
            type(self).fails -= 1
            self.send_error(503)
            return
        self.send_response(200)
        if self.drips.is_set():
            self.asked_again.release()
            with suppress(OSError):
                while not self.over.wait(0.1):
                    self.wfile.write(b"X")
            return
        body = json.dumps({"access_token": unsigned_token(self.life_s), "expires_in": self.life_s}).encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def renewing() -> Iterator[str]:
    _Renewing.drips.clear()
    _Renewing.over.clear()
    _Renewing.asked = 0
    _Renewing.asked_again = threading.Semaphore(0)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Renewing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/token"
        _Renewing.over.set()
        server.shutdown()
        thread.join()


def test_a_process_whose_authority_drips_at_renewal_ends_when_told_to(
    bench: KafkaBench, topic: str, renewing: str, tmp_path: Path
) -> None:
    told = settings(bench, topic, **token_url(renewing, "s3cret"))
    security = {**token_url(renewing, "s3cret"), "ca_file": bench.broker.tls / "ca.pem"}
    environ = {f"FLOWDIFF_KAFKA_SECURITY_{key.upper()}": str(value) for key, value in security.items()}
    lake, log = tmp_path / "lake", tmp_path / "log"
    words = ["ingest", "--bootstrap", told.bootstrap[0], "--topics", topic, "--lake", str(lake)]
    command = [sys.executable, "-m", "flowdiff", *words]
    with (
        log.open("w") as out,
        fork_server.Popen(command, env={**os.environ, **environ}, stdout=out, stderr=out) as process,
    ):
        try:
            until = time.monotonic() + ENDS_S
            while not [*lake.glob("control/commits/lane=1/*2.json")] and process.poll() is None:
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.1)
            _Renewing.drips.set()
            for _ in range(4):  # it goes on, and asks again
                assert _Renewing.asked_again.acquire(timeout=ENDS_S), log.read_text()
            assert process.poll() is None, log.read_text()
            began = time.monotonic()
            process.terminate()
            process.wait(timeout=ENDS_S)
            took_s = time.monotonic() - began
        finally:
            process.kill()
    said = log.read_text()
    assert "no token from" in said
    assert took_s < KafkaSecurity().token_timeout_ms / 1000 + STOPS_S, said
    assert process.returncode == 0, said
    assert "Traceback" not in said


@pytest.mark.parametrize("failures", [0, 2])
def test_an_authority_that_is_slow_or_fails_at_every_renewal_holds_nothing_up(
    bench: KafkaBench, renewing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    monkeypatch.setattr(_Renewing, "life_s", 5.0)
    monkeypatch.setattr(_Renewing, "slow_s", 1.5)
    topic, (server, *_) = bench.topic(), bench.broker.listeners("SASL_SSL")
    security = {**token_url(renewing, "s3cret"), "ca_file": bench.broker.tls / "ca.pem"}
    environ = {f"FLOWDIFF_KAFKA_SECURITY_{key.upper()}": str(value) for key, value in security.items()}
    words = ["--bootstrap", server, "--topics", topic, "--lake", tmp_path / "lake", "--serve-address", ""]
    words += ["--commit-interval", "500ms", "--log-level", "debug", "--default-format", "native"]
    environ["FLOWDIFF_KAFKA_SECURITY_TOKEN_RETRY"] = "200ms"
    bench.fill(topic, records(5, time.time_ns(), name="first-"))
    messages = 4 * 5 * 3
    with IngestProcess(tmp_path / "log", *words, env=environ) as ingest:

        def read() -> int:
            return sum(told["messages"] for told in ingest.events() if told["event"] == "commit")

        wait_until(lambda: read() or ingest.process.poll() is not None)
        for number in range(3):
            asked = _Renewing.asked
            wait_until(lambda: _Renewing.asked > asked or ingest.process.poll() is not None)  # noqa: B023
            monkeypatch.setattr(_Renewing, "fails", failures)
            wait_until(lambda: not _Renewing.fails or ingest.process.poll() is not None)
            bench.fill(topic, records(5, time.time_ns(), name=f"r{number}-"))
        wait_until(lambda: read() >= messages or ingest.process.poll() is not None)
        ingest.signal(signal.SIGTERM)
        assert ingest.ended() == 0, ingest.text
        assert read() == messages
        assert "no token" not in ingest.text
        assert "Traceback" not in ingest.text


@pytest.mark.parametrize("kept", ["client_secret_file", "token_file"])
def test_a_process_whose_secret_is_gone_at_renewal_says_so_and_goes_on_when_it_is_back(
    bench: KafkaBench, renewing: str, tmp_path: Path, kept: str
) -> None:
    topic, file = bench.topic(), tmp_path / kept
    bench.fill(topic, records(5, time.time_ns() - 10**10))
    file.write_text("s3cret" if kept == "client_secret_file" else unsigned_token(_Renewing.life_s))
    who = {"token_url": renewing, "client_id": "flowdiff"} if kept == "client_secret_file" else {}
    ca, named = bench.broker.tls / "ca.pem", f"'{file}' cannot be read"
    security = {"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER", "ca_file": ca, kept: file, **who}
    environ = {f"FLOWDIFF_KAFKA_SECURITY_{key.upper()}": str(value) for key, value in security.items()}
    lake, (server, *_) = tmp_path / "lake", bench.broker.listeners("SASL_SSL")
    words = ["--bootstrap", server, "--topics", topic, "--lake", lake, "--commit-interval", "500ms"]
    words += ["--serve-address", "", "--default-format", "native"]

    def commits() -> int:
        return len([*lake.glob("control/commits/lane=1/*.json")])

    with IngestProcess(tmp_path / "log", *words, env=environ) as ingest:
        wait_until(lambda: commits() >= 2 or ingest.process.poll() is not None)
        file.unlink()
        ingest.wait_for("trouble", lambda event: named in event["why"])
        before = commits()
        file.write_text("s3cret" if who else unsigned_token(600))
        bench.fill(topic, records(5, time.time_ns(), name="again"))
        wait_until(lambda: commits() > before or ingest.process.poll() is not None)
        ingest.signal(signal.SIGTERM)
        assert ingest.ended() == 0, ingest.text
        assert "Traceback" not in ingest.text


def token_url(url: str, secret: str) -> dict[str, Any]:
    """Settings of OAUTHBEARER."""
    who = {"token_url": url, "client_id": "flowdiff", "client_secret": secret}
    return {"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER", **who}


def test_token_for_a_secret(bench: KafkaBench, topic: str, authority: str) -> None:
    assert reads(settings(bench, topic, **token_url(authority, "s3cret")))
    # One token serves the connections of one client.
    assert _Authority.asked <= 2


def test_a_token_is_asked_for_again_when_a_fifth_of_its_life_is_left(authority: str) -> None:
    now = 1_000.0
    tokens = ClientCredentials(
        authority, "flowdiff", lambda: "s3cret", clock=lambda: now, timeout_s=5, again_s=1
    )
    first = tokens.token()
    for passed, asked in ((479.0, 1), (481.0, 2), (481.0 + 479.0, 2), (481.0 + 481.0, 3)):
        now = 1_000.0 + passed
        assert tokens.token()
        assert _Authority.asked == asked
    assert tokens.token() != first


def test_an_authority_that_does_not_speak_http_gives_no_token() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"\x15\x03\x01\x00\x02\x02\x46")  # an alert of TLS
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):  # what is left unread would be answered by a reset
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/token"
        with pytest.raises(TokenError, match=f"no token from {url}: answered no HTTP"):
            ClientCredentials(url, "flowdiff", lambda: "s3cret", timeout_s=5, again_s=1).token()
        thread.join()


def test_a_secret_that_cannot_be_read_any_more_is_said(
    bench: KafkaBench, topic: str, authority: str, tmp_path: Path
) -> None:
    who = {"token_url": authority, "client_id": "flowdiff", "client_secret_file": tmp_path / "gone"}
    security = {"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER", **who}
    told = settings(bench, topic, **security)
    why = f"the secret in '{tmp_path / 'gone'}' cannot be read: No such file or directory"
    assert broker_problem(told) == f"Not authenticated at {told.bootstrap[0]}: {why}."


def test_a_right_that_is_missing_is_named(bench: KafkaBench, topic: str) -> None:
    user = bench.broker.env["USERNAME"]
    told = settings(bench, topic, **scram(bench))
    bench.grant_only(user, ResourceType.GROUP, told.group, ACLOperation.DESCRIBE)
    refused, hidden = bench.topic(), bench.topic()
    bench.grant_only(user, ResourceType.TOPIC, refused, ACLOperation.DESCRIBE)
    bench.grant_only("somebody", ResourceType.TOPIC, hidden, ACLOperation.READ)
    for wrong, said in (
        (told, f"The group '{told.group}' may not be used: grant Read on it to user '{user}'."),
        (
            settings(bench, refused, **scram(bench)),
            f"Topic '{refused}' may not be read: grant Read and Describe on it to user '{user}'.",
        ),
        (
            settings(bench, hidden, **scram(bench)),
            f"Topic '{hidden}' does not exist, or may not be read: make it, or grant Read and Describe to "
            f"user '{user}'.",
        ),
    ):
        source = KafkaSource(wrong)
        try:
            read = Reader(source)
            read.read_until(lambda source=source, said=said: source.trouble == said)  # type: ignore[misc]
        finally:
            source.close()


# Who cannot join never comes to fetching.
def test_what_is_wrong_is_told_apart(
    bench: KafkaBench, topic: str, authority: str, drips: str, tmp_path: Path
) -> None:
    broker = bench.broker
    other_ca, token = broker.tls / "other-ca.pem", tmp_path / "token"
    token.write_text(unsigned_token(-60))
    plain = broker.bootstrap[0]
    cases = {
        f"refuses user '{broker.env['USERNAME']}' .SCRAM-SHA-512": scram(bench, password="wrong"),
        "refuses user 'nobody' .PLAIN": scram(bench, "PLAIN", username="nobody"),
        "signed by an authority that is not among '.*other-ca.pem'": scram(bench, ca_file=other_ca),
        "asks for a client certificate": {"protocol": "SSL"},
        "refuses the token": {"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER", "token_file": token},
        "answers 401": token_url(authority, "wrong"),
        "no whole answer in time": {**token_url(drips, "s3cret"), "token_timeout_ms": 300},
    }
    for said, security in cases.items():
        wrong = settings(bench, topic, connect_timeout_ms=REFUSED_MS, **security)
        with pytest.raises(InputError, match=said) as error:
            KafkaSource(wrong)
        assert "wrong" not in str(error.value)
    with pytest.raises(InputError, match="speaks TLS, and the settings say PLAINTEXT: set SSL or SASL_SSL"):
        KafkaSource(
            bench.settings(topic, bootstrap=broker.listeners("SASL_SSL"), connect_timeout_ms=REFUSED_MS)
        )
    without_tls = bench.settings(
        topic, security={"protocol": "SSL", "ca_file": broker.tls / "ca.pem"}, connect_timeout_ms=REFUSED_MS
    )
    with pytest.raises(InputError, match=f"{plain} does not speak TLS, and the settings say SSL"):
        KafkaSource(without_tls)
    without_password = settings(bench, topic, **scram(bench, password=None))
    with pytest.raises(ConfigError, match="SCRAM-SHA-512 needs a password"):
        KafkaSource(without_password)
