"""Groups of open windows that were built before their window can be, so that sealing it takes seconds.

A group is built ahead once its requests have been quiet, and used if the log still says the same of it when
its window is built. Its encoded files lie in the scratch folder; a builder that starts has none and builds
them with the window.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from uuid import uuid4

import pyarrow as pa

from schemas.rejects import Reject
from stitch.drivers.build.groups import Group
from stitch.drivers.live.live_settings import LiveSettings
from stitch.lake.staging import EncodedFile
from stitch.scratch import Scratch


@dataclass(frozen=True, slots=True)
class BuiltGroup:
    """Files of a group with all that the version of its window says of it."""

    files: tuple[EncodedFile, ...]
    counts: Mapping[str, int]
    """Number of events by outcome, as the kernel counts them, and by reason of rejection."""
    refused: list[Reject]
    """Events that the kernel rejected."""


@dataclass(frozen=True, slots=True)
class _Ahead:
    """State of a group when it was quiet."""

    digest: str
    settings: LiveSettings
    rows: int
    built: BuiltGroup | None
    """None: not built, as groups of the window before changed after they were built, or not stored."""


class AheadGroups:
    """Groups built ahead. Used by one thread."""

    def __init__(self, scratch: Scratch, waste_share: float) -> None:
        """waste_share: share of a window's events built ahead in vain from which on the next window is built
        at its end."""
        self._scratch = scratch
        self._waste_share = waste_share
        self._groups: dict[tuple[int, int, int, int], _Ahead] = {}
        self.pauses = False
        """True if groups are only noted, to see whether they would have changed."""

    def find(self, group: Group, settings: LiveSettings) -> BuiltGroup | None:
        """The group as it was built ahead; None if it was not, or the log or the settings changed since."""
        known = self._groups.get(group.place)
        if known is None or known.digest != group.within.digest or known.settings != settings:
            return None
        return known.built

    def knows(self, group: Group) -> bool:
        """True if the group was built ahead, or noted, even if it changed since: a group that late events
        trickle into is built at the end of its window."""
        return group.place in self._groups

    def keep(self, group: Group, settings: LiveSettings, built: BuiltGroup | None) -> None:
        """Keep a group that was built ahead, or note it (None). A group for which the scratch folder has no
        room is noted, as are others until the next window is built: they are built with their windows."""
        if built is not None:
            try:
                built = replace(built, files=tuple(self._mapped(file) for file in built.files))
            except OSError:
                built, self.pauses = None, True
        self._groups[group.place] = _Ahead(group.within.digest, settings, group.within.rows, built)

    def forget(self, start_ns: int, groups: Iterable[Group]) -> None:
        """Forget the groups of a window that was built, and decide by them whether to build ahead.

        groups: those that the window was built from.
        """
        own = {place: self._groups.pop(place) for place in [*self._groups] if place[0] == start_ns}
        same = {group.place: group.within.digest for group in groups}
        total = sum(known.rows for known in own.values())
        spoilt = sum(known.rows for place, known in own.items() if same.get(place) != known.digest)
        if total:
            self.pauses = spoilt > self._waste_share * total

    def _mapped(self, file: EncodedFile) -> EncodedFile:
        """Same file, in a memory-mapped, already unlinked file of the scratch folder."""
        path = self._scratch.folder / f"ahead-{uuid4().hex}"
        try:
            path.write_bytes(file.data)
            with pa.memory_map(str(path)) as mapped:
                return replace(file, data=mapped.read_buffer())
        finally:
            path.unlink(missing_ok=True)
