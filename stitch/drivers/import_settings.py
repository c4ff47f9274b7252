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
"""Groups of requests stitched at once within one memory budget."""
_BUDGET_PER_PAYLOAD_BYTE: Final = 6
"""Peak of kernel and writer over the payload of the group they work on,
measured (docs/internals/performance.md)."""
DECODERS: Final = 2
"""Chunks decoded at once, each in a thread: DuckDB and Arrow free the lock, ptars partly."""
MAX_WINDOWS: Final = 2_016
"""Maximum windows of an import, a week of five-minute ones: ten seconds of CPU and 8,000 syncs beside the
data."""


class ImportSettings(Config):
    """Settings of an import."""

    format: str | None = None
    """Format of every file; else recognised by content, file by file."""
    window_length_ns: int | None = None
    """Window length of a new lake: 1m, 5m (default), 15m, 1h, 1d."""
    memory_bytes: int = Field(default=2**30, ge=LEAST_MEMORY_BYTES)
    """Memory budget beside the 180 MB of the idle process; larger inputs go by way of the disk."""
    params_share: float = Field(default=1.0, ge=0, le=1)
    """Share of requests, by a hash of the id, whose parameters are kept."""
    max_windows: int = Field(default=MAX_WINDOWS, ge=1)
    """Most windows of one import: each costs three files and folders, synced one by one."""
    any_time: bool = False
    """Keep records of any time, also months or years away from the bulk of their file."""
    max_dead_letters_per_file: int = Field(default=MAX_KEPT, ge=0, le=MAX_KEPT)
    """Dead letters kept of one input file; more are counted only."""
    columns: SpanColumns = SpanColumns()
    """Columns of tables of spans (Parquet)."""
    kafka: KafkaSettings = KafkaSettings(topic_pattern=".*")
    """Connection to brokers; their addresses and the topics are in the names of the input."""
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
        """Maximum workers, up to `workers`, that the memory budget allows."""
        return min(workers, STITCHED_AT_ONCE * self.memory_bytes // LEAST_MEMORY_BYTES)

    def shared_among(self, workers: int) -> ImportSettings:
        """Settings of each of `workers` workers, which share the memory budget."""
        if workers <= STITCHED_AT_ONCE:
            return self
        return self.model_copy(update={"memory_bytes": self.memory_bytes * STITCHED_AT_ONCE // workers})

    @property
    def payload_bytes(self) -> int:
        """Maximum payload of events that the memory budget allows, in STITCHED_AT_ONCE groups."""
        return self.memory_bytes // _BUDGET_PER_PAYLOAD_BYTE

    @property
    def chunk_bytes(self) -> int:
        """Text decoded at a time by each of DECODERS: 8 MB for the default budget, at a peak of some 50
        MB."""
        return min(8 * 2**20, self.memory_bytes // (64 * DECODERS))

    @property
    def page_bytes(self) -> int:
        """Largest page of a Parquet file that is unpacked: Arrow holds both the page and its decoded
        values."""
        return self.memory_bytes // 4


class ImportSummary(Config):
    """Counts of a finished import."""

    commit: int | None
    """Number of the commit; None: every file was in the lake, nothing was done."""
    files_imported: tuple[str, ...]
    files_known: tuple[str, ...]
    """In the lake already (by content), or given twice."""
    windows: int
    bytes_written: int
    spilled: bool
    """True if events went to disk on their way."""
    counters: Counters
    changed_settings: str = ""
    """Settings that files were imported with until now, and those of now; empty: the same."""


class Progress(Protocol):
    """Observer of an import's progress."""

    def begin(self, total_bytes: int) -> None:
        """Called when reading starts."""
        ...

    def decoded(self, file_bytes: int, events: int) -> None:
        """Called after decoding events; `file_bytes`: size of the file just read to its end, else 0."""
        ...

    def stitched(self, flows: int) -> None:
        """Called after a group of events became flows."""
        ...
