"""What a receiver has had, kept in the lake beside the watch's commits.

Events are in the commits and tables of the watch already. So the outbox of a receiver is what happened less
what is in its ledger, and nothing is lost whenever a process dies: at worst an event is sent again, with the
id that it had.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pydantic import ValidationError

from analyze.report.store import put_same
from schemas.config import Config
from schemas.incidents import IncidentEvent
from stitch.lake.store import Store

FOLDER: Final = "watch/sent"
KEPT: Final = 4_096
"""Events that are remembered: of older ones none is sent again."""


class _Sent(Config):
    """Content of the file, ids oldest first."""

    version: int = 1
    sent: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """Refused by the receiver for what they are; they are not tried again."""


class Ledger:
    """The ledger of one receiver. Every method may raise OSError."""

    def __init__(self, store: Store, receiver: str) -> None:
        self._store = store
        self._name = f"{FOLDER}/{receiver}.json"
        self._ids: dict[str, bool] = {}
        """Id -> whether it was refused."""

    def outbox(self, events: Sequence[IncidentEvent]) -> list[IncidentEvent]:
        """Return the lake's events that the receiver has not had, oldest first.

        A new receiver gets the incidents that are open, and none of the past.
        """
        known = self._read()
        recent = sorted(events, key=lambda event: event.at_ns)[-KEPT:]
        if known is None:
            last = {event.incident_id: event for event in recent}
            news = {event.id for event in last.values() if event.incident.goes_on}
            self.add(event.id for event in recent if event.id not in news)  # from now on it misses nothing
        else:
            self._ids = {**dict.fromkeys(known.sent, False), **dict.fromkeys(known.refused, True)}
        return [event for event in recent if event.id not in self._ids]

    def has(self, id_: str) -> bool:
        """Whether the receiver had an event, or refused it."""
        return id_ in self._ids

    def add(self, ids: Iterable[str], *, refused: bool = False) -> None:
        """Remember events, durably."""
        self._ids |= dict.fromkeys(ids, refused)
        for old in [*self._ids][:-KEPT]:
            del self._ids[old]
        record = _Sent(
            sent=tuple(id_ for id_, no in self._ids.items() if not no),
            refused=tuple(id_ for id_, no in self._ids.items() if no),
        )
        put_same(self._store, self._name, record.model_dump_json().encode())

    def _read(self) -> _Sent | None:
        """Read the ledger; None where there is none, or it is damaged."""
        try:
            return _Sent.model_validate_json(self._store.read(self._name).to_pybytes())
        except (FileNotFoundError, ValidationError):
            return None
