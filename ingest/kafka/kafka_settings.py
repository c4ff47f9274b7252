"""Settings of Kafka: connection, topics and formats to read, and writing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from ingest.http.address import address_of
from schemas.config import Config, Expert
from schemas.errors import UnknownFormatError

MAX_RECONNECT_BACKOFF_MS: Final = 1_000
"""Maximum pause between two attempts to reconnect, ms: during a longer pause a client would not notice that
the broker is back."""


class Protocol(StrEnum):
    """Protocol of a broker's listener: whether it is encrypted (SSL) and authenticates clients (SASL)."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """True if the connection is encrypted."""
        return self in (Protocol.SSL, Protocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """True if the client authenticates with credentials."""
        return self in (Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL)


class Mechanism(StrEnum):
    """SASL mechanism, by which a client proves who it is."""

    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"
    PLAIN = "PLAIN"

    @property
    def has_password(self) -> bool:
        """True if the mechanism needs a user name and a password."""
        return self is not Mechanism.OAUTHBEARER


class KafkaSecurity(Config):
    """TLS, and who we are. Secrets come from the environment or from files, and are never shown."""

    protocol: Protocol = Protocol.PLAINTEXT
    """Protocol of the broker's listener: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL."""
    ca_file: Path | None = None
    """PEM file with the authorities that sign the brokers' certificates; none: those of the system."""
    check_hostname: bool = True
    """Require that a broker's certificate names the host that was dialled."""
    certificate_file: Path | None = None
    """PEM with the client's certificate and its chain, for brokers that ask for one (mTLS)."""
    key_file: Path | None = None
    """PEM file with the key of `certificate_file`; none: the key is in the same file."""
    key_password: SecretStr | None = None
    """Password of an encrypted key."""
    key_password_file: Path | None = None
    """File with the password of an encrypted key."""
    mechanism: Mechanism = Mechanism.SCRAM_SHA_512
    """Mechanism of SASL: SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, PLAIN."""
    username: str | None = None
    """User name for SCRAM and PLAIN."""
    password: SecretStr | None = None
    """Password for SCRAM and PLAIN."""
    password_file: Path | None = None
    """File with the password for SCRAM and PLAIN."""
    allow_plain_text_password: bool = False
    """Allow PLAIN over a connection that is not encrypted. Anyone on the network path can read the password.
    """
    token_file: Path | None = None
    """OAUTHBEARER: file with a token that another process renews; read at every connection."""
    token_url: str | None = None
    """OAUTHBEARER: URL of the token endpoint (OAuth 2.0, client credentials); https, or http on loopback."""
    client_id: str | None = None
    """OAUTHBEARER: client id sent to `token_url`."""
    client_secret: SecretStr | None = None
    """OAUTHBEARER: secret of `client_id`."""
    client_secret_file: Path | None = None
    """OAUTHBEARER: file with the secret of `client_id`."""
    token_scope: str | None = None
    """OAUTHBEARER: scope requested from `token_url`."""
    token_timeout_ms: Expert[int] = Field(default=5_000, ge=100, le=30_000)
    """OAUTHBEARER: time limit for an answer of `token_url`, from name resolution to its last byte. The
    client's other work waits meanwhile; heartbeats may take several times as long.
    """
    token_retry_ms: Expert[int] = Field(default=1_000, ge=100, le=60_000)
    """OAUTHBEARER: pause after a failed request to `token_url`. Until then the previous token is used while
    it is valid; the pause is at most a fifth of its life.
    """

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.protocol.has_sasl and self.mechanism.has_password and self.username is None:
            raise ValueError(f"{self.mechanism} needs a username")
        if self.protocol.has_sasl and self.mechanism is Mechanism.OAUTHBEARER:
            if (self.token_file is None) == (self.token_url is None):
                raise ValueError("OAUTHBEARER needs either token_file or token_url")
            if self.token_url is not None:
                try:
                    address = address_of(self.token_url)
                except ValueError as error:
                    raise ValueError(f"token_url: {error}") from None
                if not address.is_private:
                    raise ValueError("token_url must be https: the secret goes there")
                if self.client_id is None:
                    raise ValueError("token_url needs client_id")
        if (
            self.protocol is Protocol.SASL_PLAINTEXT
            and self.mechanism in (Mechanism.PLAIN, Mechanism.OAUTHBEARER)
            and not self.allow_plain_text_password
        ):
            raise ValueError(
                f"{self.mechanism} over SASL_PLAINTEXT sends its secret readable: use SASL_SSL, "
                "or set allow_plain_text_password"
            )
        if self.key_file is not None and self.certificate_file is None:
            raise ValueError("key_file needs certificate_file")
        return self


class TopicFormat(Config):
    """The format of the topics whose whole name matches a pattern."""

    topics: str
    """Regular expression of topics' whole names."""
    format: str
    """Name of the format of their messages."""

    @field_validator("topics")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        return _checked_pattern(pattern)

    @field_validator("format")
    @classmethod
    def _is_known(cls, name: str) -> str:
        # Codecs' types load Arrow, which a command that only shows its options does not need.
        from ingest.formats import format_of

        try:
            return format_of(name).name
        except UnknownFormatError as error:
            raise ValueError(error.message) from None


_BROKER: Final = re.compile(r"(\[[0-9A-Fa-f:.]+(%[\w.-]+)?\]|[\w.-]+)(:(?P<port>\d{1,5}))?", re.ASCII)
"""Pattern of a broker: host name or address with an optional port. Other parts of a URL are excluded, as they
could contain a secret."""
_LAST_PORT: Final = 65_535


def are_brokers(names: Iterable[str]) -> bool:
    """True if every name is `host:port` or `host`."""
    found = [_BROKER.fullmatch(name) for name in names]
    return all(one is not None and int(one["port"] or 0) <= _LAST_PORT for one in found)


class KafkaSettings(Config):
    """Settings for reading a Kafka as a member of a consumer group."""

    bootstrap: tuple[str, ...] = Field(default=("localhost:9092",), min_length=1)
    """Addresses of brokers to contact first, `host:port`; one that answers is enough."""
    topics: tuple[str, ...] = ()
    """Names of the topics to read."""
    topic_pattern: str | None = None
    """Regular expression of whole topic names to read, also of topics made later; instead of `topics`."""
    formats: tuple[TopicFormat, ...] = ()
    """Formats by topic; the first row that matches a topic's name applies."""
    default_format: str = "auto"
    """Format of topics that no row of `formats` matches; `auto`: recognised from the messages' content."""
    group: str = "flowdiff"
    """Consumer group; its members share the partitions."""
    static_member_id: str | None = None
    """Static name of this member, one that outlives a restart (such as a pod of a StatefulSet): if it returns
    within `session_timeout_ms`, it gets its partitions back without a rebalance.
    """
    client_name: str = "flowdiff"
    """Name of this client in the brokers' logs and quotas."""
    start_at: Literal["earliest", "latest"] = "earliest"
    """Position at which a partition is first read: `earliest` or `latest`. Later starts go on from the lake's
    position.
    """
    on_corrupt: Literal["halt", "skip"] = "halt"
    """Handling of a batch whose checksum stays wrong, or that unpacks to more than `max_unpacked_bytes`:
    `halt` the lane or `skip` the batch.
    """
    max_unpacked_bytes: Expert[int] = Field(default=64 * 2**20, ge=2**20)
    """Maximum size of a compressed batch after unpacking; a larger one is handled as corrupt."""
    session_timeout_ms: int = Field(default=15_000, ge=1_000)
    """Time without a heartbeat after which a member loses its partitions: the delay that a killed process
    costs.
    """
    heartbeat_interval_ms: Expert[int] = Field(default=3_000, ge=100)
    """Time between heartbeats; at most a third of `session_timeout_ms`."""
    max_poll_interval_ms: Expert[int] = Field(default=300_000, ge=1_000)
    """Time without a poll after which a member loses its partitions."""
    release_timeout_ms: Expert[int] = Field(default=30_000, ge=100)
    """Time that partitions assigned to another member wait for their last commit; after that they are given
    up without it.
    """
    connect_timeout_ms: int = Field(default=5_000, ge=100)
    """Time without an answer of any broker at the start after which the reason is diagnosed and printed."""
    request_timeout_ms: int = Field(default=15_000, ge=1_000)
    """Time limit of every request to a broker."""
    metadata_max_age_ms: Expert[int] = Field(default=5_000, ge=100)
    """Age at which metadata of topics, partitions and leaders is refreshed: how long a new partition, or a
    topic deleted and made again, stays unnoticed. A refresh takes a few hundred bytes.
    """
    security: KafkaSecurity = KafkaSecurity()

    @field_validator("bootstrap")
    @classmethod
    def _are_brokers(cls, brokers: tuple[str, ...]) -> tuple[str, ...]:
        if not are_brokers(brokers):
            raise ValueError("brokers are host:port; who connects is in kafka.security")
        return brokers

    @field_validator("topic_pattern")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        return None if pattern is None else _checked_pattern(pattern)

    @field_validator("default_format")
    @classmethod
    def _is_known(cls, name: str) -> str:
        return name if name == "auto" else TopicFormat(topics=".*", format=name).format

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.topics and self.topic_pattern is not None:
            raise ValueError("give either topics or topic_pattern")
        if 3 * self.heartbeat_interval_ms > self.session_timeout_ms:
            raise ValueError("heartbeat_interval_ms must be at most a third of session_timeout_ms")
        if self.release_timeout_ms >= self.max_poll_interval_ms:
            raise ValueError("release_timeout_ms must be less than max_poll_interval_ms")
        return self

    @property
    def has_topics(self) -> bool:
        """True if topics, or a pattern of topics, are configured."""
        return bool(self.topics) or self.topic_pattern is not None

    def format_of_topic(self, topic: str) -> str:
        """Name of the format of a topic's messages, or `ingest.formats.AUTO`."""
        for row in self.formats:
            if re.fullmatch(row.topics, topic):
                return row.format
        return self.default_format


def _checked_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return pattern


class ProduceSettings(Config):
    """Settings for writing messages."""

    rate: float | None = Field(default=None, gt=0)
    """Maximum number of spans or records written per second."""
    speed: float | None = Field(default=None, gt=0)
    """Speed relative to event time: 1 writes as fast as it happened, 60 an hour per minute. Files are written
    in the order given.
    """
    message_bytes: int = Field(default=64 * 1024, ge=0, le=900_000)
    """Approximate maximum size of a message that holds several requests of one partition; 0: one request per
    message.
    """
    make_topic: int | None = Field(default=None, ge=1)
    """Number of partitions of the topic, which is made first where it is missing."""
