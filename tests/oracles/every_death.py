"""What a process leaves wherever it may die, of one run: what came before a death is not done again for each.

`deaths` runs something once, on a disk or an object store in memory. In each of its operations a twin of the
disk dies, as one with `crash_at` would. `Judged` knows what was looked at: crashes that leave the same are
judged once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from threading import Lock
from typing import Any, Final, Generic, NamedTuple, TypeVar

from oracles.memory_disk import CrashError, MemoryDisk
from oracles.object_store import ObjectStore

Left = TypeVar("Left", MemoryDisk, ObjectStore)
Told = TypeVar("Told")

_OPERATIONS: Final = ("make_folder", "create", "sync_file", "sync_folder", "link", "rename", "remove")


class Death(NamedTuple, Generic[Left, Told]):
    """One of them: the dead disk, and what the run had told by then."""

    left: Left
    told: Told


def deaths(
    disk: MemoryDisk, run: Callable[[MemoryDisk], object], told: Told
) -> list[Death[MemoryDisk, Told]]:
    """Run on a disk to the end: what a death leaves in each operation, in order.

    `told` is what `run` tells others, and is copied at each.
    """
    found: list[Death[MemoryDisk, Told]] = []
    one_at_once = Lock()  # threads of what runs would change the disk while it is copied

    def dying(name: str) -> Callable[..., Any]:
        do = getattr(disk, name)

        def done(*given: Any) -> Any:
            with one_at_once:
                twin = disk.twin()
                twin.crash_at = twin.steps + 1
                with suppress(CrashError):
                    getattr(twin, name)(*given)
                assert twin.dead, f"{name} {given} is no operation"
                found.append(Death(twin, deepcopy(told)))
                return do(*given)

        return done

    watched: Any = _Watched(disk, {name: dying(name) for name in _OPERATIONS})
    run(watched)
    return found


def deaths_in_bucket(
    store: ObjectStore, run: Callable[[ObjectStore], object], told: Told
) -> list[Death[ObjectStore, Told]]:
    """The same of an object store: what is there before each request, and after the last.

    A request that was carried out and not answered leaves what is there before the next one; what was told by
    then may hold its acknowledgement.
    """
    found: list[Death[ObjectStore, Told]] = []

    def note() -> None:
        found.append(Death(store.twin(), deepcopy(told)))

    store.before_request = note
    run(store)
    note()
    return found


class _Watched:
    """A disk of which some operations are others."""

    def __init__(self, disk: MemoryDisk, others: dict[str, Callable[..., Any]]) -> None:
        self._disk = disk
        self._others = others

    def __getattr__(self, name: str) -> Any:
        return self._others[name] if name in self._others else getattr(self._disk, name)


class Judged:
    """What was judged already."""

    def __init__(self) -> None:
        self._seen: set[object] = set()

    def __len__(self) -> int:
        return len(self._seen)

    def is_new(self, left: MemoryDisk | ObjectStore, told: object = None) -> bool:
        """Whether nothing like it was judged, and note it."""
        state = (left.state(), repr(told))
        is_new = state not in self._seen
        self._seen.add(state)
        return is_new
