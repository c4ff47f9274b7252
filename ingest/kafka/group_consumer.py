"""Make consumers of kafka-python: the member of the group, and one of none."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from kafka import KafkaConsumer

from ingest.kafka.diagnosis import connected, silence_client
from ingest.kafka.kafka_security import client_security
from ingest.kafka.kafka_settings import (
    FETCH_BYTES,
    MAX_RECONNECT_BACKOFF_MS,
    KafkaSettings,
)
from ingest.kafka.lane_assignor import LaneAssignor
from schemas.errors import ConfigError


def group_consumer(settings: KafkaSettings, assignor: LaneAssignor) -> KafkaConsumer:
    """A member of the group that has not joined yet. Raises InputError, ConfigError."""
    return _consumer(
        settings,
        group_id=settings.group,
        group_instance_id=settings.static_member_id,
        partition_assignment_strategy=[assignor],
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        max_poll_interval_ms=settings.max_poll_interval_ms,
    )


def lone_consumer(settings: KafkaSettings) -> KafkaConsumer:
    """A member of no group. Raises InputError, ConfigError."""
    return _consumer(settings, group_id=None)


def _consumer(settings: KafkaSettings, **group: Any) -> KafkaConsumer:
    if find_spec("crc32c") is None:
        raise ConfigError(
            "The package crc32c is missing: checksums would take 25 times as long.",
            remedy="Run: pip install crc32c.",
        )
    silence_client()
    arguments: dict[str, Any] = {**client_security(settings.security), **group}
    return connected(
        settings,
        lambda timeout_ms: KafkaConsumer(
            bootstrap_servers=list(settings.bootstrap),
            client_id=settings.client_name,
            auto_offset_reset="none",
            enable_auto_commit=False,
            allow_auto_create_topics=False,
            isolation_level="read_committed",
            max_partition_fetch_bytes=FETCH_BYTES,
            request_timeout_ms=settings.request_timeout_ms,
            bootstrap_timeout_ms=timeout_ms,
            metadata_max_age_ms=settings.metadata_max_age_ms,
            reconnect_backoff_max_ms=MAX_RECONNECT_BACKOFF_MS,
            metrics_enabled=False,
            **arguments,
        ),
    )
