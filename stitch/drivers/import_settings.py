"""Settings of an import, and the summary of its results."""

from __future__ import annotations

from typing import Final, Protocol

from pydantic import Field

from ingest.formats import format_of
from ingest.kafka.kafka_settings import KafkaSettings
from schemas.commits import Counters
from schemas.config import MAX_KEPT, Config, DecodeConfig, SpanColumns, StitchConfig

LEAST_MEMORY_BYTES: Final = 64 * 2**20
STITCHED_AT_ONCE: Final = 2
"""Number of groups of requests that are stitched concurrently within one memory budget."""
_BUDGET_PER_PAYLOAD_BYTE: Final = 6
"""Peak memory, bytes, of kernel and writer per byte of payload in the group of requests that they process;
measured (docs/internals/performance.md)."""
DECODERS: Final = 2
"""Number of chunks decoded concurrently, each in a thread: DuckDB and Arrow release Python's lock while they
decode, ptars does so in part."""
MAX_WINDOWS: Final = 2_016
"""Default maximum number of windows of an import: a week of five-minute windows, which cost ten seconds of
CPU and 8,000 syncs in addition to the data."""


class ImportSettings(Config):
    """Settings of an import."""

    format: str | None = None
    """Format of every file; none: recognised from the content of each file."""
    window_length_ns: int | None = None
    """Window length of a new lake: 1m, 5m (default), 15m, 1h, 1d."""
    memory_bytes: int = Field(default=2**30, ge=LEAST_MEMORY_BYTES)
    """Memory budget beside the 180 MB of the idle process; larger inputs spill to disk."""
    params_share: float = Field(default=1.0, ge=0, le=1)
    """Share of requests, chosen by a hash of the request id, whose parameters are kept."""
    max_windows: int = Field(default=MAX_WINDOWS, ge=1)
    """Maximum number of windows of one import; each costs three files and folders, synced one by one."""
    keep_events: bool = False
    """Keep raw events in the lake's log and build windows from it, so that a request is joined whose events
    come by several imports, or by an import and live topics. Else a request's later parts become late events
    or a flow of their own."""
    any_time: bool = False
    """Keep records of any time, also those months or years away from most of their file."""
    max_dead_letters_per_file: int = Field(default=MAX_KEPT, ge=0, le=MAX_KEPT)
    """Maximum number of dead letters kept per input file; further ones are only counted."""
    columns: SpanColumns = SpanColumns()
    """Columns of span tables (Parquet)."""
    kafka: KafkaSettings = KafkaSettings(topic_pattern=".*")
    """Connection to brokers, whose addresses and topics are part of the inputs' names."""
    decode: DecodeConfig = DecodeConfig()
    stitch: StitchConfig = StitchConfig()

    def named(self) -> ImportSettings:
        """Copy of the settings with the format's main name in place of an alias, as commits record it.

        Raises UnknownFormatError.
        """
        return (
            self if self.format is None else self.model_copy(update={"format": format_of(self.format).name})
        )

    def most_workers(self, workers: int) -> int:
        """Number of workers that the memory budget allows, at most `workers`."""
        return min(workers, STITCHED_AT_ONCE * self.memory_bytes // LEAST_MEMORY_BYTES)

    def shared_among(self, workers: int) -> ImportSettings:
        """Settings for each of `workers` workers that share the memory budget."""
        if workers <= STITCHED_AT_ONCE:
            return self
        return self.model_copy(update={"memory_bytes": self.memory_bytes * STITCHED_AT_ONCE // workers})

    @property
    def payload_bytes(self) -> int:
        """Maximum bytes of event payloads that the memory budget allows in STITCHED_AT_ONCE groups
        together."""
        return self.memory_bytes // _BUDGET_PER_PAYLOAD_BYTE

    @property
    def segment_bytes(self) -> int:
        """Maximum payload of the events of a log segment, bytes: of two at a time, one is encoded."""
        return self.payload_bytes // 2

    @property
    def chunk_bytes(self) -> int:
        """Bytes of text in a chunk; DECODERS chunks are decoded at a time. 8 MB by default, with a peak of
        some 50 MB of memory."""
        return min(8 * 2**20, self.memory_bytes // (64 * DECODERS))

    @property
    def page_bytes(self) -> int:
        """Maximum bytes of a Parquet page after decompression: Arrow holds the page and its decoded values in
        memory."""
        return self.memory_bytes // 4


class ImportSummary(Config):
    """Counts of a finished import."""

    commit: int | None
    """Number of the commit; None: every file was in the lake already and nothing was written."""
    files_imported: tuple[str, ...]
    files_known: tuple[str, ...]
    """Names of files whose content was in the lake already, or that were given twice."""
    windows: int
    bytes_written: int
    spilled: bool
    """True if events were written to disk before they were stitched."""
    counters: Counters
    changed_settings: str = ""
    """Settings of earlier imports and of this one where they differ; empty: they are the same."""


class Progress(Protocol):
    """Observer of an import's progress."""

    def begin(self, total_bytes: int) -> None:
        """Called when reading starts; total_bytes: size of all input files."""
        ...

    def decoded(self, file_bytes: int, events: int) -> None:
        """Called after decoding events; `file_bytes`: size of the file just read to its end, else 0."""
        ...

    def stitched(self, flows: int) -> None:
        """Called after a group of requests was stitched; flows: number of its flows."""
        ...
