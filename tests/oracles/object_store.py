"""An object store in memory: puts with `If-None-Match: *`, copies, deletes; no folders, no links, no syncs.

What is put is durable. It stops at any request, before it did what was asked or after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from oracles.memory_disk import CrashError

from stitch.lake.store import Move


@dataclass
class ObjectStore:
    """See the module. `crash_at` counts mutating requests from 1; 0 never stops."""

    crash_at: int = 0
    concurrency: int = 1
    """Requests that its users have under way at once."""
    times_out: bool = False
    """The request at which it stops is stored, and its answer lost."""
    steps: int = 0
    dead: bool = False
    objects: dict[str, bytes] = field(default_factory=dict)
    now_ns: int = 0
    """What is written is written now."""
    written_ns: dict[str, int] = field(default_factory=dict)
    """Of what was not written at 0."""
    before_request: Callable[[], None] = lambda: None
    """What is done before each mutating request."""

    def _dies(self) -> bool:
        if self.dead:
            raise CrashError
        self.before_request()
        self.steps += 1
        self.dead = self.steps == self.crash_at
        return self.dead

    def _put(self, name: str, data: bytes) -> None:
        dies = self._dies()
        if name in self.objects and not (dies and not self.times_out):
            raise FileExistsError(name)
        if not dies or self.times_out:
            self.objects[name] = data
            self.written_ns[name] = self.now_ns
        if dies:
            raise CrashError

    def restart(self) -> None:
        self.crash_at, self.dead = 0, False

    def twin(self) -> ObjectStore:
        """Return a store that holds the same."""
        return ObjectStore(objects=dict(self.objects), written_ns=dict(self.written_ns))

    def files(self) -> frozenset[tuple[str, bytes]]:
        """Return what a reader sees."""
        return frozenset(self.objects.items())

    def state(self) -> object:
        """Return all that it holds."""
        return self.files(), frozenset(self.written_ns.items())

    # -- the port ---------------------------------------------------------------------------------

    def read(self, name: str) -> pa.Buffer:
        if name not in self.objects:
            raise FileNotFoundError(name)
        return pa.py_buffer(self.objects[name])

    def read_end(self, name: str, n_bytes: int) -> pa.Buffer:
        data = self.read(name)
        return data.slice(max(0, data.size - n_bytes))

    def size(self, name: str) -> int | None:
        return len(self.objects[name]) if name in self.objects else None

    def sizes(self, names: Sequence[str]) -> list[int | None]:
        return [self.size(name) for name in names]

    def names(self, folder: str, after: str = "") -> list[str]:
        prefix = f"{folder}/" if folder else ""
        begin = len(prefix)
        found = {name[begin:].partition("/")[0] for name in self.objects if name.startswith(prefix)}
        return sorted(name for name in found if name > after)

    def written(self, folder: str) -> dict[str, int]:
        names = [name for name in self.objects if name.rpartition("/")[0] == folder]
        return {name.rpartition("/")[2]: self.written_ns.get(name, 0) for name in names}

    def below(self, folder: str, is_folder: Callable[[str], bool]) -> Iterator[str]:
        yield from sorted(name for name in self.objects if name.startswith(f"{folder}/" if folder else ""))

    def put(self, name: str, data: pa.Buffer | bytes) -> None:
        self._put(name, bytes(data))

    def persist(self, names: Sequence[str]) -> None:
        for name in names:
            self.read(name)

    def settle(self, folder: str) -> None:
        """Nothing to do."""

    def put_if_absent(self, name: str, data: bytes, stage: str) -> None:
        self._put(name, data)

    def publish(self, moves: Sequence[Move]) -> None:
        for move in moves:
            if move.final not in self.objects:
                if move.stage not in self.objects:
                    raise FileNotFoundError(2, "neither published nor staged", move.final)
                self._put(move.final, self.objects[move.stage])
            self.remove(move.stage)

    def replace(self, name: str, data: bytes, stage: str) -> None:
        if self._dies():
            raise CrashError
        self.objects[name] = data

    def remove(self, name: str) -> None:
        for victim in [n for n in self.objects if n == name or n.startswith(f"{name}/")]:
            if self._dies():
                raise CrashError
            del self.objects[victim]
