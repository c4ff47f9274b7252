"""Groups of requests built before the end of their window, so that building the window takes seconds.

A group is built ahead once no event of its requests has arrived for a while, and used if the log holds the
same events of it when its window is built. Its encoded files are in the scratch folder; a builder that has
just started has no such groups, and builds all groups with the window.
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
    """Files of a group, with its part of the counts and rejects that the window's commit records."""

    files: tuple[EncodedFile, ...]
    counts: Mapping[str, int]
    """Number of events by outcome, as the kernel counts them, and by reason of rejection."""
    refused: list[Reject]
    """Events that the kernel rejected."""


@dataclass(frozen=True, slots=True)
class _Ahead:
    """State of a group at the time it was built ahead, or noted without being built."""

    digest: str
    settings: LiveSettings
    rows: int
    built: BuiltGroup | None
    """Files of the group; None if it was only noted: too many groups of the previous window changed after
    they were built, or the scratch folder had no room."""


class AheadGroups:
    """Groups built ahead. Used by one thread."""

    def __init__(self, scratch: Scratch, waste_share: float) -> None:
        """waste_share: maximum share, in [0, 1], of a window's events that may be built ahead in vain; above
        it, the next window's groups are built at the end of the window."""
        self._scratch = scratch
        self._waste_share = waste_share
        self._groups: dict[tuple[int, int, int, int], _Ahead] = {}
        self.pauses = False
        """True if groups should not be built ahead, but only noted, to count those that change later."""

    def find(self, group: Group, settings: LiveSettings) -> BuiltGroup | None:
        """Files of a group built ahead; None if it was not built, or if its events in the log or the settings
        have changed since."""
        known = self._groups.get(group.place)
        if known is None or known.digest != group.within.digest or known.settings != settings:
            return None
        return known.built

    def knows(self, group: Group) -> bool:
        """True if the group was built ahead, or noted, even if it changed since: a group that late events
        trickle into is built at the end of its window."""
        return group.place in self._groups

    def keep(self, group: Group, settings: LiveSettings, built: BuiltGroup | None) -> None:
        """Store the files `built` of a group that was built ahead; None: only note the group.

        A group for which the scratch folder has no room is only noted, as are further ones until the next
        window is built: such groups are built with their windows.
        """
        if built is not None:
            try:
                built = replace(built, files=tuple(self._mapped(file) for file in built.files))
            except OSError:
                built, self.pauses = None, True
        self._groups[group.place] = _Ahead(group.within.digest, settings, group.within.rows, built)

    def forget(self, start_ns: int, groups: Iterable[Group]) -> None:
        """Remove the groups of a window that is now built, and set `pauses`: True if too many of the events
        in these groups belong to groups that changed after they were built or noted.

        start_ns: start of the window, ns since the epoch. groups: groups from which the window was built.
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
