"""Parse names of topics given as inputs of an import, and resolve the offsets that they refer to.

    kafka://HOST:PORT[,HOST:PORT…]/TOPIC[/PARTITION][@RANGE]

RANGE is START:END, offsets of the partition, or a period (`schemas.periods`) of message times: from the first
message at or after the period's start up to, and excluding, the first message at or after its end. Without a
range: all messages of the topic. Offsets are resolved once, so messages written later are not part of the
input.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kafka import KafkaConsumer

from ingest.kafka.diagnosis import explained, missing_topic
from ingest.kafka.kafka_settings import KafkaSettings, are_brokers
from ingest.kafka.log_range import partition_of, range_of, topic_id_of
from ingest.kafka.membership import lone_consumer
from ingest.source import TOPIC_SCHEME, LogPart, StreamId
from schemas.errors import InputError
from schemas.periods import Period, parse_period

_NAME: Final = re.compile(
    rf"{TOPIC_SCHEME}(?P<servers>[^/@]+)/(?P<topic>[\w.-]{{1,249}})(?:/(?P<partition>\d{{1,19}}))?"
    r"(?:@(?P<range>[^@]+))?",
    re.ASCII,
)
_OFFSETS: Final = re.compile(r"(\d{1,19}):(\d{1,19})", re.ASCII)
_NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class TopicInput:
    """Parsed name of a topic as an input."""

    servers: tuple[str, ...]
    """Brokers to contact first, `host:port`."""
    topic: str
    partition: int | None
    """Partition number; None: all partitions."""
    offsets: tuple[int, int] | None
    """Offsets `[start, end)` in the partition; None: not given."""
    period: Period | None
    """Range of message times; None: not given. If `offsets` is None too: all messages."""

    def has(self, topic: str, partition: int, start: int, end: int) -> bool:
        """True if the offsets `[start, end)` of a partition may belong to the input; always True if it has a
        period."""
        low, high = self.offsets or (start, end)
        return topic == self.topic and self.partition in (None, partition) and (low <= start < end <= high)


def parse_topic_input(name: str, *, now_ns: int) -> TopicInput:
    """Parse the name of an input; the module docstring has the grammar. Raises InputError, PeriodError."""
    found = _NAME.fullmatch(name)
    if found is None or not are_brokers(
        found["servers"].split(",")
    ):  # it may hold a password, so it is not repeated
        raise InputError(
            "A topic is named kafka://HOST:PORT/TOPIC, /PARTITION and @RANGE may follow.",
            remedy="Who connects is said in [kafka.security] of --config, or by FLOWDIFF_KAFKA_SECURITY_….",
        )
    partition, range_ = found["partition"], found["range"]
    offsets = None if range_ is None else _OFFSETS.fullmatch(range_)
    if offsets is not None and partition is None:
        raise InputError(
            f"'@{range_}' are offsets of one partition.",
            remedy=f"Name it: {TOPIC_SCHEME}{found['servers']}/{found['topic']}/0@{range_}.",
        )
    return TopicInput(
        servers=tuple(found["servers"].split(",")),
        topic=found["topic"],
        partition=None if partition is None else int(partition),
        offsets=None if offsets is None else (int(offsets[1]), int(offsets[2])),
        period=None if range_ is None or offsets is not None else parse_period(range_, now_ns=now_ns),
    )


def parts_of(asked: TopicInput, settings: KafkaSettings, format_: str | None) -> list[LogPart]:
    """Resolve an input to parts of the log, one for each partition with messages in it.

    format_: format of the messages; None: as configured for the topic. Raises InputError, also if requested
    offsets do not exist.
    """
    settings = settings.model_copy(update={"bootstrap": asked.servers})
    with explained(f"{asked.topic} is not read", settings):
        consumer = lone_consumer(settings)
        try:
            partitions = sorted(consumer.partitions_for_topic(asked.topic))
            if asked.partition is not None:
                partitions = [number for number in partitions if number == asked.partition]
            if not partitions:
                which = "" if asked.partition is None else f" Partition {asked.partition} was asked for."
                raise InputError(missing_topic(asked.topic, settings) + which)
            streams = [StreamId(asked.topic, number) for number in partitions]
            ranges = [_range(consumer, stream, asked, settings.request_timeout_ms) for stream in streams]
            parts = [
                LogPart(
                    servers=asked.servers,
                    cluster_id=consumer._cluster.cluster_id,
                    topic_id=topic_id_of(consumer, asked.topic),
                    stream=stream,
                    start=start,
                    end=end,
                    format=format_ or settings.format_of_topic(asked.topic),
                )
                for stream, (start, end) in zip(streams, ranges, strict=True)
                if start < end
            ]
        finally:
            consumer.close(autocommit=False)
    if not parts:
        raise InputError(f"Topic '{asked.topic}' has no message of what is asked for.")
    return parts


def _range(consumer: KafkaConsumer, stream: StreamId, asked: TopicInput, timeout_ms: int) -> tuple[int, int]:
    """Resolve the offsets `(start, end)` of a partition's messages that belong to the input.

    Raises kafka-python's exceptions, InputError.
    """
    partition = partition_of(stream)
    there = range_of(consumer, partition, timeout_ms)

    def first_at(at_ns: int) -> int:
        at_ms = max(0, -(-at_ns // _NS_PER_MS))
        found = consumer.offsets_for_times({partition: at_ms}, timeout_ms)[partition]
        return there.end if found is None else min(found.offset, there.end)

    if asked.period is not None:
        return first_at(asked.period.start_ns), first_at(asked.period.end_ns)
    start, end = asked.offsets or (there.first, there.end)
    if start < end and (start < there.first or end > there.end):
        if there.first == there.end:
            raise InputError(f"{stream.name} has no message; {start} to {end - 1} were asked for.")
        low, high = max(start, there.first), min(end, there.end)
        raise InputError(
            f"{stream.name} has offsets {there.first} to {there.end - 1}, not all of {start} to {end - 1}.",
            remedy=f"What it has of them: @{low}:{high}." if low < high else "",
        )
    return start, end
