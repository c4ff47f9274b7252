"""Parts of an import shared by the command and the Python API: input by name, progress, counts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from flowdiff.cli.kafka import kafka_settings
from schemas.config import SpanColumns
from schemas.errors import ConfigError, InputError

if TYPE_CHECKING:
    from rich.progress import Progress

    from ingest.source import LogPart
    from stitch.drivers.build.kept_events import KeptBuild
    from stitch.drivers.import_settings import ImportSettings, ImportSummary


def span_columns(pairs: Mapping[str, str]) -> SpanColumns:
    """Make SpanColumns from field -> column name. Raises ConfigError for an unknown field or unit."""
    fields = SpanColumns.model_fields
    if unknown := sorted(pairs.keys() - fields.keys()):
        raise ConfigError(
            f"A table has no '{unknown[0]}' (--column).", remedy=f"Fields are {', '.join(fields)}."
        )
    try:
        return SpanColumns.model_validate(dict(pairs))
    except ValidationError as error:
        raise ConfigError(
            f"--column time_unit cannot be '{pairs['time_unit']}'.", remedy="Take s, ms, us or ns."
        ) from error


def reaching_topics(settings: ImportSettings, names: list[str], config: Path | None) -> ImportSettings:
    """Add the settings of Kafka brokers if a topic is among `names`.

    Raises ConfigError, InputError.
    """
    from ingest.source import TOPIC_SCHEME

    if not any(name.startswith(TOPIC_SCHEME) for name in names):
        return settings
    kafka = kafka_settings(None, config, topic_pattern=settings.kafka.topic_pattern)
    return settings.model_copy(update={"kafka": kafka})


def expanded(patterns: list[str], settings: ImportSettings) -> list[str | LogPart]:
    """Names of the files that match each glob, and parts of topics.

    Raises InputError for a pattern without a match.
    """
    from ingest.source import TOPIC_SCHEME
    from stitch.drivers.inputs import files_named

    names: list[str] = []
    parts: list[LogPart] = []
    for pattern in patterns:
        if pattern.startswith(TOPIC_SCHEME):
            from ingest.kafka.topic_input import parse_topic_input, parts_of

            asked = parse_topic_input(pattern, now_ns=time.time_ns())
            parts += parts_of(asked, settings.kafka, settings.named().format)
            continue
        found = files_named(pattern)
        if not found:
            raise InputError(f"No file matches '{pattern}'.", remedy="Check the path.")
        names.extend(found)
    folders = [name for name in names if Path(name).is_dir()]
    if folders:
        raise InputError(f"'{folders[0]}' is a folder.", remedy=f"Name its files: '{folders[0]}/*'.")
    return [*names, *parts]


class _Bar:
    """Progress bar of an import; shows nothing without a terminal."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._read = bar.add_task("reading", total=None, events=0, flows=0)
        self._events = 0
        self._flows = 0

    def begin(self, total_bytes: int) -> None:
        self._bar.update(self._read, total=total_bytes)

    def decoded(self, file_bytes: int, events: int) -> None:
        self._events += events
        self._bar.update(self._read, advance=file_bytes, events=self._events)

    def stitched(self, flows: int) -> None:
        self._flows += flows
        self._bar.update(self._read, description="stitching", flows=self._flows)


@contextmanager
def import_progress(*, shown: bool = True) -> Iterator[_Bar]:
    """Show a progress bar on a terminal or in a notebook, if `shown`; nothing elsewhere."""
    from rich.progress import BarColumn, DownloadColumn, SpinnerColumn, TextColumn

    from flowdiff.cli.progress import progress

    counts = TextColumn("{task.fields[events]:,} events, {task.fields[flows]:,} flows")
    text = TextColumn("{task.description}")
    with progress(SpinnerColumn(), text, BarColumn(), DownloadColumn(), counts, shown=shown) as bar:
        yield _Bar(bar)


def build_kept_events(lake: str, memory_bytes: int, workers: int) -> KeptBuild:
    """Build the windows of events that imports kept, in `workers` processes if they are many, unless another
    process builds. Raises LakeError."""
    from flowdiff.cli.upkeep import upkeep
    from stitch.drivers.build.build_settings import BuildSettings
    from stitch.drivers.build.kept_events import build_kept
    from stitch.drivers.live.election import election
    from stitch.drivers.live.live_settings import LiveSettings
    from stitch.scratch import Scratch

    live = LiveSettings()
    settings = BuildSettings(memory_bytes=memory_bytes, workers=workers)
    with upkeep(lake, "Building", "1h") as run, Scratch() as scratch:
        chosen = election(run.store, lake, run.owner, live.build_lease_ns)
        return build_kept(run, scratch, settings, chosen)


def with_build(summary: ImportSummary, built: KeptBuild) -> ImportSummary:
    """Summary of an import that kept its events, with the windows and flows built from them."""
    counters = summary.counters.model_copy(update={"flows": built.flows})
    return summary.model_copy(update={"windows": built.windows, "counters": counters})


def kept_rows(built: KeptBuild) -> list[tuple[str, str]]:
    """(Name, formatted count) of what was built from kept events."""
    rows = [
        ("events in them", built.events),
        ("windows that wait for live lanes", built.waiting),
        ("late events (kept under late/)", built.late),
    ]
    return [(name, f"{count:,}") for name, count in rows if count]


def summary_rows(summary: ImportSummary) -> list[tuple[str, str]]:
    """(Name, formatted count) of each counter that is not zero, and of events, flows and windows."""
    counters = summary.counters
    rows: list[tuple[str, int]] = [
        ("files imported", len(summary.files_imported)),
        ("files already in the lake", len(summary.files_known)),
        ("events", counters.events_read),
        ("flows", counters.flows),
        ("windows", summary.windows),
        ("bytes written", summary.bytes_written),
        ("duplicate events", counters.events_duplicate),
        ("flows already in the lake", counters.flows_duplicate),
        ("events kept", counters.events_logged),
        ("late flows (kept under late/)", counters.flows_late),
        *((f"rejected: {reason}", count) for reason, count in counters.rejects.items()),
        *((f"oddity: {name}", count) for name, count in counters.oddities.items()),
        *((f"quality: {flag}", count) for flag, count in counters.quality.items()),
    ]
    always = {"events", "flows", "windows"}
    return [(name, f"{count:,}") for name, count in rows if count or name in always]
