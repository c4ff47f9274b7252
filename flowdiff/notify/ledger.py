"""Ledger of the events delivered to a receiver, stored in the lake beside the watch's commits.

All events are in the commits and tables of the watch. So the outbox of a receiver is all events minus those
in its ledger, and nothing is lost whenever a process dies: at worst an event is sent again, with the same id.
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


class _Sent(Config):
    """Content of a ledger's file: ids of delivered and refused events, oldest first."""

    version: int = 1
    sent: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """Ids of events that the receiver refused as invalid; they are not sent again."""


class Ledger:
    """Record of the events delivered to one receiver. Every method may raise OSError."""

    def __init__(self, store: Store, receiver: str, kept: int) -> None:
        """kept: maximum number of events that are remembered; older ones are never sent."""
        self._store, self._kept = store, kept
        self._name = f"{FOLDER}/{receiver}.json"
        self._ids: dict[str, bool] = {}
        """Event id -> True if refused, False if delivered."""

    def outbox(self, events: Sequence[IncidentEvent]) -> list[IncidentEvent]:
        """Events of the lake that were not delivered to the receiver yet, oldest first.

        A new receiver only gets the open incidents.
        """
        known = self._read()
        recent = sorted(events, key=lambda event: event.at_ns)[-self._kept :]
        if known is None:
            last = {event.incident_id: event for event in recent}
            news = {event.id for event in last.values() if event.incident.goes_on}
            # Without a ledger all events count as delivered, except the last one of each open incident.
            self.add(event.id for event in recent if event.id not in news)
        else:
            self._ids = {**dict.fromkeys(known.sent, False), **dict.fromkeys(known.refused, True)}
        return [event for event in recent if event.id not in self._ids]

    def has(self, id_: str) -> bool:
        """True if the event with this id was delivered, or refused by the receiver."""
        return id_ in self._ids

    def add(self, ids: Iterable[str], *, refused: bool = False) -> None:
        """Record events as delivered, or refused, durably."""
        self._ids |= dict.fromkeys(ids, refused)
        for old in [*self._ids][: -self._kept]:
            del self._ids[old]
        record = _Sent(
            sent=tuple(id_ for id_, no in self._ids.items() if not no),
            refused=tuple(id_ for id_, no in self._ids.items() if no),
        )
        put_same(self._store, self._name, record.model_dump_json().encode())

    def _read(self) -> _Sent | None:
        """Content of the ledger; None if it is missing or damaged."""
        try:
            return _Sent.model_validate_json(self._store.read(self._name).to_pybytes())
        except (FileNotFoundError, ValidationError):
            return None
