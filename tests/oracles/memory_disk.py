"""A disk in memory that stops at any operation and forgets what was not synced.

The model: the names in a folder are a list of pending operations until the folder is synced; a file's bytes
are at risk until the file is synced. A rename is one operation of both folders (journaling file systems never
keep half of it) and becomes durable with the sync of either.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace

import pyarrow as pa

from stitch.lake.disk import LocalDisk


class CrashError(Exception):
    """The process died here."""


@dataclass(slots=True)
class Node:
    """A file (`data`) or a folder (None)."""

    data: bytes | None
    synced: bool = False
    written_ns: int = 0


@dataclass(slots=True)
class Pending:
    """One change of names not yet durable."""

    folders: tuple[str, ...]
    removed: str | None
    added: str | None
    node: Node | None


@dataclass
class MemoryDisk(LocalDisk):
    """See the module. `crash_at` counts mutating operations from 1; 0 never stops."""

    crash_at: int = 0
    error: Callable[[], Exception] = CrashError
    steps: int = 0
    log: list[str] = field(default_factory=list)
    turns: dict[str, Callable[[], None]] = field(default_factory=dict)
    """What another process does just before the next operation of a kind (`link`, `remove`), once."""
    stalls: dict[int, Callable[[], None]] = field(default_factory=dict)
    """What others do while this process sleeps just before an operation, by its number, once."""
    now_ns: int = 0
    """What is written is written now."""
    dead: bool = False
    """After a crash the process does nothing more, whatever it would clean up."""
    _seen: dict[str, Node] = field(default_factory=dict)
    _durable: dict[str, Node] = field(default_factory=dict)
    _pending: dict[int, Pending] = field(default_factory=dict)
    """Changes by their numbers, in the order in which they were made."""
    _changed: dict[str, list[int]] = field(default_factory=dict)
    """Folder -> numbers of its changes since its last sync; syncs of others may have made some durable."""
    _n_changes: int = 0

    def _step(self, what: str) -> bool:
        """Count an operation; True when the process dies in it."""
        if self.dead:
            raise CrashError
        if (others := self.stalls.pop(self.steps + 1, None)) is not None:
            others()
        self.steps += 1
        self.log.append(what)
        return self.steps == self.crash_at

    def _stop(self) -> None:
        self.dead = self.error is CrashError
        raise self.error()

    def interrupt(self, operation: str) -> None:
        """Let the other process have its turn."""
        if (other := self.turns.pop(operation, None)) is not None:
            other()

    def at_step(self, step: int, others: Callable[[], None]) -> None:
        """Let others act while this process sleeps just before an operation."""
        self.stalls[step] = others

    def skip(self) -> None:
        """For mutants: an operation that does nothing, though the process may die in it."""
        if self._step("skipped"):
            self._stop()

    # -- the port ---------------------------------------------------------------------------------

    def read(self, name: str) -> pa.Buffer:
        node = self._seen.get(name)
        if node is None or node.data is None:
            raise FileNotFoundError(name)
        return pa.py_buffer(node.data)

    def size(self, name: str) -> int | None:
        node = Node(None) if name == "" else self._seen.get(name)
        return None if node is None else len(node.data or b"")

    def names(self, folder: str) -> list[str]:
        prefix = f"{folder}/" if folder else ""
        begin = len(prefix)
        return sorted(
            name[begin:] for name in self._seen if name.startswith(prefix) and "/" not in name[begin:]
        )

    def written(self, folder: str) -> dict[str, int]:
        names = [name for name in self.names(folder) if self._seen[f"{folder}/{name}"].data is not None]
        return {name: self._seen[f"{folder}/{name}"].written_ns for name in names}

    def make_folder(self, name: str) -> None:
        if self._step(f"make_folder {name}"):
            self._stop()
        self._require(_parent(name))
        if name not in self._seen:
            self._change((_parent(name),), None, name, Node(None))

    def create(self, name: str, data: pa.Buffer | bytes) -> None:
        dies = self._step(f"create {name}")
        self._require(_parent(name))
        if name in self._seen:
            raise FileExistsError(name)
        content = bytes(data)
        if dies:
            content = content[: len(content) // 2]
        self._change((_parent(name),), None, name, Node(content, written_ns=self.now_ns))
        if dies:
            self._stop()

    def sync_file(self, name: str) -> None:
        if self._step(f"sync_file {name}"):
            self._stop()
        self._require(name)
        self._seen[name].synced = True

    def sync_folder(self, name: str) -> None:
        if self._step(f"sync_folder {name}"):
            self._stop()
        self._require(name)
        for number in self._changed.pop(name, ()):
            if (pending := self._pending.pop(number, None)) is not None:
                _apply(self._durable, pending)

    def link(self, source: str, target: str) -> None:
        self.interrupt("link")
        if self._step(f"link {source} {target}"):
            self._stop()
        self._require(source)
        self._require(_parent(target))
        if target in self._seen:
            raise FileExistsError(target)
        self._change((_parent(target),), None, target, self._seen[source])

    def rename(self, source: str, target: str) -> None:
        if self._step(f"rename {source} {target}"):
            self._stop()
        self._require(source)
        self._require(_parent(target))
        for name in self._tree(source):
            moved = target + name.removeprefix(source)
            self._change((_parent(source), _parent(target)), name, moved, self._seen[name])

    def remove(self, name: str) -> None:
        self.interrupt("remove")
        if self._step(f"remove {name}"):
            self._stop()
        for victim in reversed(self._tree(name)):
            self._change((_parent(victim),), victim, None, None)

    def _tree(self, name: str) -> list[str]:
        """Names of a file, or of a folder and all that is in it, sorted; none where there is neither."""
        node = self._seen.get(name)
        if node is not None and node.data is not None:
            return [name]
        return sorted(n for n in self._seen if n == name or n.startswith(f"{name}/"))

    def _require(self, name: str) -> None:
        if name and name not in self._seen:
            raise FileNotFoundError(name)

    def _change(
        self, folders: tuple[str, ...], removed: str | None, added: str | None, node: Node | None
    ) -> None:
        change = Pending(folders, removed, added, node)
        _apply(self._seen, change)
        self._n_changes += 1
        self._pending[self._n_changes] = change
        for folder in folders:
            self._changed.setdefault(folder, []).append(self._n_changes)

    # -- copies -----------------------------------------------------------------------------------

    def twin(self) -> MemoryDisk:
        """Return a disk that holds the same, and with which something else can happen."""
        twins = {id(node): replace(node) for node in self._nodes()}
        twin = copy(self)
        twin.log, twin.turns, twin.stalls = [*self.log], {}, {}
        twin._seen = {name: twins[id(node)] for name, node in self._seen.items()}
        twin._durable = {name: twins[id(node)] for name, node in self._durable.items()}
        twin._pending = {
            number: replace(change, node=None if change.node is None else twins[id(change.node)])
            for number, change in self._pending.items()
        }
        twin._changed = {folder: [*numbers] for folder, numbers in self._changed.items()}
        return twin

    def state(self) -> object:
        """Return all that it holds, and what it may forget: equal where nobody could tell two disks apart."""
        nodes = {id(node): node for node in self._nodes()}
        number = {key: n for n, key in enumerate(nodes)}  # which names are of one file
        return (
            tuple((node.data, node.synced, node.written_ns) for node in nodes.values()),
            tuple((name, number[id(node)]) for name, node in sorted(self._seen.items(), key=_name)),
            tuple((name, number[id(node)]) for name, node in sorted(self._durable.items(), key=_name)),
            tuple(
                (change.folders, change.removed, change.added, number.get(id(change.node)))
                for change in self._pending.values()
            ),
        )

    def files(self) -> frozenset[tuple[str, bytes]]:
        """Return what a reader sees, as long as the power stays."""
        return frozenset((name, node.data) for name, node in self._seen.items() if node.data is not None)

    def _nodes(self) -> list[Node]:
        """Every file and folder, in an order that is the same for disks that hold the same."""
        named = [
            node for names in (self._seen, self._durable) for _, node in sorted(names.items(), key=_name)
        ]
        return [*named, *(change.node for change in self._pending.values() if change.node is not None)]

    # -- after the end ----------------------------------------------------------------------------

    def kill(self) -> None:
        """The process is gone, the machine is not: everything written is still there."""
        self.crash_at = 0
        self.dead = False

    def lose_power(self) -> None:
        """Only what was synced is left; a file whose bytes were not is cut in half."""
        self._restart(lambda: False, lambda data: data[: len(data) // 2])

    def lose_some(self, rng: random.Random) -> None:
        """Each pending change was written back, or not; bytes not synced are whole, cut or gone."""
        self._restart(
            lambda: rng.random() < 0.5, lambda data: data[: rng.choice([0, len(data) // 2, len(data)])]
        )

    def _restart(self, keeps: Callable[[], bool], cut: Callable[[bytes], bytes]) -> None:
        self.crash_at = 0
        self.dead = False
        for pending in self._pending.values():
            if keeps():
                _apply(self._durable, pending)
        self._pending, self._changed = {}, {}
        reachable = {
            name: node
            for name, node in self._durable.items()
            if all(above in self._durable for above in _ancestors(name))
        }
        for node in reachable.values():
            if node.data is not None and not node.synced:
                node.data = cut(node.data)
                node.synced = True
        self._durable = reachable
        self._seen = dict(reachable)


def _apply(names: dict[str, Node], change: Pending) -> None:
    if change.removed is not None:
        names.pop(change.removed, None)
    if change.added is not None and change.node is not None:
        names[change.added] = change.node


def _name(entry: tuple[str, Node]) -> str:
    return entry[0]


def _parent(name: str) -> str:
    return name.rpartition("/")[0]


def _ancestors(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


ENDINGS: dict[str, Callable[[MemoryDisk], None]] = {
    "kill": MemoryDisk.kill,
    "power": MemoryDisk.lose_power,
    "some": lambda disk: disk.lose_some(random.Random(disk.steps)),
}
"""What a crash may leave of what was not synced: all, nothing, or some of it."""
