"""Count the events and rejects of each file of an import, and refuse an import without events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ingest.decoding import DecodedBatch
from ingest.formats import format_names
from schemas.arrays import I8
from schemas.commits import InputFile
from schemas.errors import InputError, UnknownFormatError
from schemas.rejects import Reason
from stitch.drivers.import_settings import ImportSettings
from stitch.drivers.inputs import Source
from stitch.drivers.refusals import DaysSeen

_NAMED: Final = 5
"""Maximum number of files named in a message; the others are only counted."""


@dataclass(slots=True)
class FileCounts:
    """Counts of one input file: events, their days, oddities, and the first reject."""

    events: int = 0
    days: DaysSeen = field(default_factory=DaysSeen)
    oddities: Counter[str] = field(default_factory=Counter)
    refusal: tuple[str, str] | None = None
    """(reason, detail) of the first reject of the file; None without one."""

    def add(self, decoded: DecodedBatch) -> None:
        """Add a decoded batch of the file to the counts."""
        self.events += decoded.events.num_rows
        self.oddities.update(decoded.oddities)
        if decoded.events.num_rows:
            self.days.add(decoded.events)
        if decoded.rejects.num_rows and self.refusal is None:
            first = decoded.rejects.slice(0, 1).to_pylist()[0]
            self.refusal = first["reason"], first["detail"]

    def input_file(self, source: Source, settings: ImportSettings, absurd_days: I8) -> InputFile:
        """Entry for the file in the commit record. absurd_days: days since the epoch whose events were
        refused as absurd."""
        return InputFile(
            name=source.name,
            sha256=source.sha256,
            size=source.size,
            format=settings.format,
            columns=settings.columns.told,
            events=self.events,
            quarantined=self.days.count(absurd_days),
        )


_OF_CSV: Final = (
    "Make a Parquet file, python -c \"import duckdb; duckdb.read_csv('{csv}').write_parquet('{parquet}')\", "
    "and import that, its columns named: --column trace_id=… (docs/internals/formats.md, a table of spans)."
)


def require_events(read: Mapping[Source, FileCounts], format_: str | None) -> None:
    """Refuse an import that read no event, unless its files are all empty. format_: the requested format.

    A wrong format or file is thus reported at once, and nothing is written to the lake. Raises
    UnknownFormatError, InputError.
    """
    refused = [
        (source.name, *counts.refusal)
        for source, counts in read.items()
        if counts.refusal is not None and counts.refusal[0] != Reason.EMPTY
    ]
    if not refused or any(counts.events for counts in read.values()):
        return
    rest = f" and {len(refused) - _NAMED} more" if len(refused) > _NAMED else ""
    remedy = f"Name the format: --format {'|'.join(format_names())}."
    if all(reason == Reason.UNKNOWN_FORMAT for _, reason, _ in refused):
        names = ", ".join(f"'{name}'" for name, _, _ in refused[:_NAMED])
        verb = "is" if len(refused) == 1 else "are"
        if all(name.lower().endswith((".csv", ".tsv")) for name, _, _ in refused):
            stem = refused[0][0].rpartition(".")[0]
            remedy = _OF_CSV.format(csv=refused[0][0], parquet=f"{stem}.parquet")
        raise UnknownFormatError(f"{names}{rest} {verb} in no format known by content.", remedy=remedy)
    reasons = "; ".join(f"'{name}' ({reason}: {detail})" for name, reason, detail in refused[:_NAMED])
    form = "" if format_ is None else f" as {format_}"
    raise InputError(
        f"No event could be read{form}; first reason of each file: {reasons}{rest}.",
        remedy=f"Nothing was imported. {remedy}",
    )


def refuse_without_events(sources: Sequence[Source], settings: ImportSettings) -> None:
    """Raise as `require_events` if no input has an event: reads each input up to the first event, in the
    format that the import will recognise; the import reads it again."""
    read = {source: FileCounts() for source in sources}
    for source, counts in read.items():
        for decoded in source.decoded(settings, batch_events=1):
            counts.add(decoded)
            if counts.events:
                return
    require_events(read, settings.format)
