"""What was read of each file of an import, and the refusal of one that brought nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ingest.decoding import DecodedBatch
from ingest.formats import format_names
from schemas.commits import InputFile
from schemas.errors import FlowdiffError, InputError, UnknownFormatError
from schemas.rejects import Reason
from stitch.drivers.inputs import Source

NAMED: Final = 5
"""Files named in a message; the rest is counted."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    reason: str
    detail: str


@dataclass(slots=True)
class Tally:
    """Events and first reject by file. `format` is what was asked for; None: by content."""

    format: str | None
    _events: Counter[str] = field(default_factory=Counter)
    _refusals: dict[str, _Refusal] = field(default_factory=dict)

    def add(self, source: Source, decoded: DecodedBatch) -> None:
        """Book a batch of a file."""
        self._events[source.sha256] += decoded.events.num_rows
        if decoded.rejects.num_rows and source.sha256 not in self._refusals:
            first = decoded.rejects.slice(0, 1).to_pylist()[0]
            self._refusals[source.sha256] = _Refusal(first["reason"], first["detail"])

    def input_file(self, source: Source) -> InputFile:
        """What the commit record says of a file."""
        return InputFile(
            name=source.name,
            sha256=source.sha256,
            size=source.size,
            format=self.format,
            events=self._events[source.sha256],
        )

    def require_events(self, sources: Sequence[Source]) -> None:
        """Refuse an import that read no event, unless its files are merely empty.

        A wrong format or a wrong file is then told at once, and leaves no trace in the lake. Raises
        UnknownFormatError, InputError.
        """
        refused = [
            (source, self._refusals[source.sha256])
            for source in sources
            if source.sha256 in self._refusals and self._refusals[source.sha256].reason != Reason.EMPTY
        ]
        if refused and not self._events.total():
            raise self._nothing_read(refused)

    def _nothing_read(self, refused: list[tuple[Source, _Refusal]]) -> FlowdiffError:
        rest = f" and {len(refused) - NAMED} more" if len(refused) > NAMED else ""
        remedy = f"Name the format: --format {'|'.join(format_names())}."
        if all(refusal.reason == Reason.UNKNOWN_FORMAT for _, refusal in refused):
            names = ", ".join(f"'{source.name}'" for source, _ in refused[:NAMED])
            verb = "is" if len(refused) == 1 else "are"
            return UnknownFormatError(
                f"{names}{rest} {verb} in no format known by content.",
                remedy=remedy,
            )
        reasons = "; ".join(
            f"'{source.name}' ({refusal.reason}: {refusal.detail})" for source, refusal in refused[:NAMED]
        )
        form = "" if self.format is None else f" as {self.format}"
        return InputError(
            f"No event could be read{form}; first reason of each file: {reasons}{rest}.",
            remedy=f"Nothing was imported. {remedy}",
        )
