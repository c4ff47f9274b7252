"""Input of live ingestion: topics of Kafka, or the spool of an OTLP receiver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from flowdiff.extras import needed
from flowdiff.settings.ingest_config import IngestConfig, is_open_address
from ingest.source import LiveSource
from schemas.errors import ConfigError
from stitch.lake.place import local_path

if TYPE_CHECKING:
    from ingest.receiver.receiver import Receiver
    from ingest.receiver.spool import Spool

SPOOL: Final = "spool"
"""Name of the spool's folder within a lake's folder."""


class RunInput(Protocol):
    """Input of a live run: the source of its messages, and the services that are started and stopped with
    it."""

    source: LiveSource

    @property
    def is_empty(self) -> bool:
        """True if the input has no stream to read now and will never have one."""
        ...

    def begin(self, registry: CollectorRegistry) -> Mapping[str, str]:
        """Start receiving; return details for the log, name -> text. Raises FlowdiffError."""
        ...

    def check(self) -> None:
        """Raise the error that ended the input, if there is one; called in every iteration of the run."""
        ...

    def end(self) -> None:
        """Stop receiving, before the run stops."""
        ...

    def close(self) -> None:
        """Release all resources, after the run has stopped."""
        ...


class KafkaInput:
    """Input from topics of Kafka."""

    def __init__(self, config: IngestConfig, memory_bytes: int, log: Any) -> None:
        """Connect to the brokers. Raises InputError if none can be used; ConfigError."""
        with needed():
            from ingest.kafka.fetching import fetch_sizes
            from ingest.kafka.kafka_source import KafkaSource

        log.info("connecting", to=",".join(config.kafka.bootstrap), group=config.kafka.group)
        self._group = config.kafka.group
        self.source: LiveSource = KafkaSource(config.kafka, config.live.decode, fetch_sizes(memory_bytes))

    @property
    def is_empty(self) -> bool:
        """False: partitions may be assigned at any time."""
        return False

    def begin(self, registry: CollectorRegistry) -> Mapping[str, str]:  # noqa: ARG002 - as RunInput has it
        """Return the name of the consumer group, for the log; messages are read once the run starts."""
        return {"group": self._group}

    def check(self) -> None:
        """Do nothing, as the source itself reports errors."""

    def end(self) -> None:
        """Do nothing, as the source is closed after the run."""

    def close(self) -> None:
        """Close the source of messages, unless the run has closed it already."""
        self.source.close()


class OtlpInput:
    """Input from an OTLP receiver by way of its spool on disk."""

    def __init__(self, config: IngestConfig, *, receives: bool) -> None:
        """Open the spool. receives: True to receive messages; False to only read those already in the spool.

        Raises ConfigError, InputError; BusyLakeError if another process uses the spool.
        """
        with needed():
            from ingest.receiver.spool import Spool
            from ingest.receiver.spool_source import SpoolSource

        self._config = config
        self._receives = receives
        self._receiver: Receiver | None = None
        self._spool: Spool = Spool(spool_folder(config), config.receiver)
        self.source: LiveSource = SpoolSource(self._spool, config.receiver.partition, config.live.decode)

    @property
    def is_empty(self) -> bool:
        """True if nothing is received and the spool has no streams."""
        return not self._receives and not self._spool.streams()

    def begin(self, registry: CollectorRegistry) -> Mapping[str, str]:
        """Start the receiver; return the addresses at which it listens, by transport. Raises
        FlowdiffError.
        """
        if not self._receives:
            return {}
        with needed():
            from ingest.receiver.receiver import Receiver

        config = self._config
        self._receiver = Receiver(
            self._spool, config.receiver, config.otlp, config.otlp_grpc, config.live.decode
        )
        registry.register(ReceiverCollector(self._spool, self._receiver))
        addresses = {"otlp": self._receiver.http, "otlp_grpc": self._receiver.grpc}
        return {name: address for name, address in addresses.items() if address is not None}

    def check(self) -> None:
        """Raise the error that ended the spool or the receiver, if there is one."""
        self._spool.check()
        if self._receiver is not None:
            self._receiver.check()

    def end(self) -> None:
        """Stop the receiver."""
        if self._receiver is not None:
            self._receiver.close()

    def close(self) -> None:
        """Stop the receiver, and close the spool."""
        self.end()
        self._spool.close()


def spool_folder(config: IngestConfig) -> Path:
    """Path of the folder for the spool. Raises ConfigError if the lake is in a bucket and `receiver.spool` is
    not set.
    """
    if config.receiver.spool:
        return Path(config.receiver.spool)
    folder = local_path(config.lake)
    if folder is None:
        raise ConfigError(
            "A receiver keeps what it answered on a disk of this machine, and the lake is in a bucket.",
            remedy="Name a folder that outlives a restart: receiver.spool.",
        )
    return folder / SPOOL


def warn_of_receiver(config: IngestConfig, log: Any) -> None:
    """Log warnings about permitted but risky settings of the receiver."""
    open_ = [address for address in (config.otlp, config.otlp_grpc) if is_open_address(address)]
    if open_ and config.receiver.token_file is None:
        log.warning("open receiver", why=f"Anyone who reaches {' or '.join(open_)} sends spans.")
    if open_ and config.receiver.certificate_file is None:
        log.warning("plain text", why="What is received is not encrypted on its way.")


class ReceiverCollector(Collector):
    """Metrics of an OTLP receiver and its spool, computed at each scrape."""

    def __init__(self, spool: Spool, receiver: Receiver) -> None:
        self._spool = spool
        self._intake = receiver.intake

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families, for Prometheus."""
        from ingest.receiver.intake import Outcome

        requests = CounterMetricFamily(
            "flowdiff_otlp_requests",
            "Requests received over OTLP, by what became of them.",
            labels=["transport", "outcome"],
        )
        counts = dict(self._intake.counts)
        for transport in ("http", "grpc"):
            for outcome in Outcome:  # zeros too, or `rate` misses the first
                requests.add_metric([transport, outcome.value], counts.get((transport, outcome), 0))
        yield requests
        yield CounterMetricFamily(
            "flowdiff_otlp_received_bytes",
            "Bytes of requests that were taken, as they were sent.",
            value=self._intake.received_bytes,
        )
        yield GaugeMetricFamily(
            "flowdiff_spool_bytes",
            "Size of the spool, with what the lake has already.",
            self._spool.size_bytes,
        )
        yield GaugeMetricFamily(
            "flowdiff_spool_pending_bytes",
            "Bytes of requests in memory, not durable yet.",
            self._spool.pending_bytes,
        )
