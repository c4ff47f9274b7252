"""Find out why a broker does not answer.

The client reports a wrong password, an unknown certificate authority, a listener with another protocol and a
missing broker all as a time-out. So this module tries each step of a connection separately.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final, TypeVar

from kafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    IncompatibleBrokerVersion,
    KafkaError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
)
from kafka.net.compat import KafkaNetClient

from ingest.kafka.kafka_security import TokenError, client_security
from ingest.kafka.kafka_settings import MAX_RECONNECT_BACKOFF_MS, KafkaSecurity, KafkaSettings
from schemas.errors import FlowdiffError, InputError, UnreachableInputError

PROBE_TIMEOUT_S: Final = 2.0
"""Time limit, s, of each step of a connection, at each broker."""
SECOND_TRY: Final = 6
"""Factor by which the time limit of a connection is multiplied for a second try, at a broker that was slow
but refused nothing."""

Client = TypeVar("Client")


def connected(settings: KafkaSettings, kind: Callable[..., Client], **arguments: Any) -> Client:
    """Create a client of class `kind`, connected as the settings require.

    Raises InputError, with the reason; ConfigError for secrets that cannot be used. A client cannot
    distinguish a broker that refuses from one that is slow (busy, just started): both end with a time-out. If
    every step, tried separately, gets an answer, the broker was slow.
    """
    # The client would log every failed connection, once a second; `trouble` reports it once. Configured
    # logging still gets the client's messages.
    logging.getLogger("kafka").addHandler(logging.NullHandler())
    make = partial(
        _made,
        kind,
        bootstrap_servers=list(settings.bootstrap),
        client_id=settings.client_name,
        request_timeout_ms=settings.request_timeout_ms,
        reconnect_backoff_max_ms=MAX_RECONNECT_BACKOFF_MS,
        **client_security(settings.security),
        **arguments,
    )
    try:
        return make(bootstrap_timeout_ms=settings.connect_timeout_ms)
    except KafkaError as error:
        problem = _first_problem(settings)
        if problem is None and not isinstance(error, KafkaTimeoutError):
            problem = _wrong(f"Kafka: {error}.")
        if problem is not None:
            raise problem from error
    try:
        return make(bootstrap_timeout_ms=SECOND_TRY * settings.connect_timeout_ms)
    except KafkaError as error:
        raise _first_problem(settings) or UnreachableInputError(
            f"No broker of {', '.join(settings.bootstrap)} answers in time.",
            remedy="Check the brokers, or raise kafka.connect_timeout.",
        ) from error


def _made(kind: Callable[..., Client], **arguments: Any) -> Client:
    """Call `kind`. If it raises an error, close the connections and the thread that it started, which it
    leaves running."""
    with ExitStack() as started:

        def client(**how: Any) -> KafkaNetClient:
            one = KafkaNetClient(**how)
            started.callback(one.close)
            return one

        made = kind(kafka_client=client, **arguments)
        started.pop_all()
    return made


def _wrong(sentence: str, *, passes: bool = False) -> InputError:
    """Error with the message `sentence` for an unusable broker; passes: True if the failure may be
    temporary."""
    kind = UnreachableInputError if passes else InputError
    return kind(sentence, remedy="Check the settings of Kafka.")


def broker_problem(settings: KafkaSettings) -> str | None:
    """Problem of the first unusable broker in `bootstrap`, as a sentence; None if all are usable.

    Takes up to three times PROBE_TIMEOUT_S per broker.
    """
    problem = _first_problem(settings)
    return None if problem is None else problem.message


def _first_problem(settings: KafkaSettings) -> InputError | None:
    return next(filter(None, (_problem(server, settings) for server in settings.bootstrap)), None)


@contextmanager
def explained(what: str, settings: KafkaSettings) -> Iterator[None]:
    """Context manager that converts exceptions of kafka-python to InputError, temporary ones to
    UnreachableInputError.

    what: start of the error's message.
    """
    try:
        yield
    except KafkaError as error:
        kind = UnreachableInputError if error.retriable else InputError
        raise kind(
            f"{what}: {error}.",
            remedy=missing_permission(error, settings) or broker_problem(settings) or "Try again.",
        ) from error


def missing_permission(error: KafkaError, settings: KafkaSettings) -> str | None:
    """Sentence that names the missing permission and the user, if the broker authenticated the client and
    denies access; None for other errors."""
    who = _who(settings.security)
    if isinstance(error, GroupAuthorizationFailedError):
        return f"The group '{settings.group}' may not be used: grant Read on it to {who}."
    if isinstance(error, TopicAuthorizationFailedError):
        detail = error.args[0] if error.args else ()
        names = detail if isinstance(detail, set | frozenset | list | tuple) else [detail]
        topics = ", ".join(f"'{name}'" for name in sorted(map(str, names))) or "some topic"
        return f"Topic {topics} may not be read: grant Read and Describe on it to {who}."
    if isinstance(error, ClusterAuthorizationFailedError):
        return f"The cluster may not be used: grant Describe on it to {who}."
    return None


def missing_topic(topic: str, settings: KafkaSettings) -> str:
    """Message for a topic that does not exist or may not be read, which brokers do not distinguish."""
    who = _who(settings.security)
    return (
        f"Topic '{topic}' does not exist, or may not be read: make it, or grant Read and Describe to {who}."
    )


def _who(security: KafkaSecurity) -> str:
    if security.protocol.has_sasl:
        return f"user '{security.username}'" if security.mechanism.has_password else "the token's user"
    return "the user of the certificate" if security.certificate_file else "user 'ANONYMOUS'"


def _problem(server: str, settings: KafkaSettings) -> InputError | None:
    host, _, port = server.rpartition(":")
    if not host or not port.isdecimal():
        return _wrong(f"'{server}' is not host:port.")
    host = host.strip("[]")
    try:
        socket.create_connection((host, int(port)), PROBE_TIMEOUT_S).close()
    except socket.gaierror as error:
        sentence = f"The host of {server} is not known: {error.strerror}."
        return _wrong(sentence, passes=error.errno == socket.EAI_AGAIN)
    except UnicodeError:
        # Raised before the lookup: a part of the name is empty, or longer than 63 characters.
        return _wrong(f"The host of {server} is no name that a host can have.")
    except TimeoutError:
        sentence = (
            f"No answer from {server} within {PROBE_TIMEOUT_S:g} s: another host, or a firewall between."
        )
        return _wrong(sentence, passes=True)
    except OSError as error:
        sentence = f"No broker at {server}: {(error.strerror or str(error)).lower()}."
        return _wrong(sentence, passes=True)
    security = settings.security
    speaks_tls = _speaks_tls(host, int(port))
    if speaks_tls and not security.protocol.has_tls:
        return _wrong(f"{server} speaks TLS, and the settings say {security.protocol}: set SSL or SASL_SSL.")
    if not speaks_tls and security.protocol.has_tls:
        return _wrong(f"{server} does not speak TLS, and the settings say {security.protocol}.")
    refusal = _refusal(server, settings)
    return None if refusal is None else _wrong(refusal)


def _speaks_tls(host: str, port: int) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), PROBE_TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return True
    except ssl.SSLError as error:
        # An alert is an answer in TLS: a client certificate is missing, or no version is common.
        return "ALERT" in (error.reason or "")
    except OSError:
        return False


def _refusal(server: str, settings: KafkaSettings) -> str | None:
    """Problem of a broker in the client's own first steps (handshake, versions, authentication), as a
    sentence; None if there is none."""
    security = settings.security
    try:
        arguments: dict[str, Any] = client_security(security)
    except FlowdiffError as error:
        return error.message
    client = KafkaNetClient(bootstrap_servers=[server], client_id=settings.client_name, **arguments)
    manager = client._manager
    (node,) = manager.cluster.bootstrap_brokers()

    async def connect() -> None:
        await manager.get_connection(
            node.node_id,
            timeout_ms=PROBE_TIMEOUT_S * 1000,
            pop_on_close=False,
            refresh_metadata_on_err=False,
        )

    try:
        manager.run(connect)
    except SaslAuthenticationFailedError:
        return _refused(server, security)
    except IncompatibleBrokerVersion:
        return f"{server} is no broker that clients may use: a controller, perhaps."
    except TokenError as error:
        return f"Not authenticated at {server}: {error}."
    except (KafkaError, OSError, RuntimeError) as error:
        return _explained(server, str(error), settings)
    finally:
        client.close()
    return None


def _refused(server: str, security: KafkaSecurity) -> str:
    who = f"user '{security.username}'" if security.mechanism.has_password else "the token"
    return f"{server} refuses {who} ({security.mechanism}): check the name and the secret."


def _explained(server: str, error: str, settings: KafkaSettings) -> str:
    """Sentence for `error`, an error text of the client; known texts are explained."""
    security = settings.security
    lower = error.lower()
    if "disconnected" in lower and security.protocol.has_sasl:
        # Some brokers refuse credentials by closing the connection, and the answer of others may come too
        # late to be read.
        return _refused(server, security)
    if "hostname mismatch" in lower or "ip address mismatch" in lower:
        return f"The certificate of {server} is of another host: dial the name that it has."
    if "certificate has expired" in lower:
        return f"The certificate of {server} has expired."
    if "certificate_verify_failed" in lower:
        where = f"'{security.ca_file}'" if security.ca_file else "the system's authorities; set ca_file"
        return f"The certificate of {server} is signed by an authority that is not among {where}."
    if "certificate required" in lower or "bad certificate" in lower or "unknown ca" in lower:
        return f"{server} asks for a client certificate that it knows: set certificate_file and key_file."
    if "mechanism" in lower and security.protocol.has_sasl:
        return f"{server} does not take {security.mechanism}: {error}."
    return f"{server} breaks off: {error}."
