"""Simulate the metadata server: one CPU, a metadata cache, a lock table, and a B-tree on a storage node."""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import count

import numpy as np
import numpy.typing as npt

from simulator import points as p
from simulator.engine import Lock, Loop, Lru, Process, Server, Strand, newest_first
from simulator.faults import FaultMechanism, Injections, injected
from simulator.parameters import Parameters
from simulator.storage import StorageNode
from simulator.streams import Stream, mix_one

META_BLOCK = 1 << 50
"""Number of the first metadata block: metadata never coincide with data blocks in a cache."""
KEY_SPREAD = 2_654_435_761
"""Multiplier that scatters neighbouring items over the tree."""
PREFETCH_MIN, PREFETCH_SPAN = 30, 30
"""Fault `F3-prefetch`: minimum number, and range above it, of extra lock and database iterations of a
prefetch: 30 to 60 (NSDI 8.4).
"""
PREFETCH_CPU = 1.2
"""Fault `F3-prefetch`: factor on the CPU time of the prefetching code path, which is not maintained."""
GROWTH = 9.0
"""Fault `F4-btree-growth`: iterations added by the end of the run at severity 1 (4 grow to 13, NSDI 8.5)."""
LINEAR_NS = 400e3
"""Fault `F4-btree-growth`: time taken, at the end of the run, by data structures that grow with the number of
items, ns.
"""


class BTree:
    """B-tree that counts the page splits of inserts. It stores the fill levels of pages, not the pages.

    Splitting a page inserts an entry into the page above, which may split in turn (NSDI 8.5).
    """

    def __init__(self, page_items: int, levels: int) -> None:
        self._page_items = page_items
        self._levels = levels
        self._fill: dict[tuple[int, int], int] = {}
        self.inserted = 0

    def insert(self, leaf: int) -> int:
        """Insert an item into a leaf page; returns the number of page splits (0 to the number of levels)."""
        self.inserted += 1
        page, splits = leaf, 0
        for level in range(self._levels):
            # Pages begin at different fills, as in a tree that has been in use.
            fill = self._fill.get((level, page), mix_one((level << 40) + page) % self._page_items) + 1
            if fill < self._page_items:
                self._fill[level, page] = fill
                break
            self._fill[level, page] = self._page_items // 2
            splits += 1
            page >>= 4
        return splits


class MetadataServer:
    """Serves LOOKUP, CREATE, REMOVE and SETATTR calls of the NFS server."""

    def __init__(
        self,
        loop: Loop,
        parameters: Parameters,
        streams: dict[str, Stream],
        nodes: tuple[StorageNode, StorageNode],
        injections: Injections,
        expected_inserts: int,
    ) -> None:
        self._loop, self._p, self._streams = loop, parameters, streams
        self._meta_node, self._data_node = nodes
        self.cache = Lru(parameters.mds_entries)
        self._pages = Lru(parameters.mds_pages)
        self.locks = [Lock() for _ in range(parameters.lock_stripes)]
        self.attributes: Lru | None = None
        """The NFS server's attribute cache, which prefetching fills."""
        self._cpu = Server()
        self._tree = BTree(parameters.page_items, parameters.tree_levels)
        self._expected_inserts = max(1, expected_inserts)
        self._prefetched = Lru(parameters.directories // 4 + 1)
        self._config = injected(injections, FaultMechanism.MDS_CONFIG)
        self._prefetch = injected(injections, FaultMechanism.PREFETCH)
        self._growth = injected(injections, FaultMechanism.TREE_GROWTH)

    def warm(self, files: npt.NDArray[np.int64]) -> None:
        """Fill the caches with files and their pages, as if these had been used before the run.

        files: distinct, last used first.
        """
        self.cache.fill(files)
        depths = max(self._p.lookup_pages, self._p.tree_pages)
        leaf = ((files[::-1] * KEY_SPREAD >> 7) % self._p.tree_items) >> 3
        pages = [META_BLOCK + ((d + 1) << 44) + (leaf >> self._p.fan_out_bits * d) for d in range(depths)]
        caches = (self._pages, self._meta_node.cache)
        order = newest_first(np.stack(pages, axis=1).ravel(), max(cache.capacity for cache in caches))
        for cache in caches:
            cache.fill(order)

    def call(self, s: Strand, kind: str, file: int) -> Process:
        """Simulate one RPC: dispatch, lock the directory, look up the item, change it, unlock, reply."""
        streams = self._streams
        s.mark(p.MDS_CALL[kind])
        s.t += s.draw(streams["net"])
        yield s.t
        s.mark(p.AT_MDS[kind])
        cpu_ns = s.draw(streams["mds_cpu"])
        prefetch = self._prefetch
        if prefetch.acts(s.t):
            added = cpu_ns * (PREFETCH_CPU - 1.0) * prefetch.severity
            s.touch(prefetch.cause, added)
            cpu_ns += added
        s.t = self._cpu.serve(s.t, cpu_ns)
        s.mark(p.DISPATCH)
        directory = file % self._p.directories
        lock = self.locks[directory % len(self.locks)]
        yield from self._acquire(s, lock)
        if self.cache.touch(file):
            s.work(streams["mds_work"], p.META_HIT)
        else:
            s.work(streams["mds_work"], p.META_MISS)
            lock.in_io = True
            for depth in range(self._p.lookup_pages):
                yield from self._visit_page(s, file, depth)
            s.work(streams["mds_work"], p.DB_READ)
            yield s.t
            lock.in_io = False
        if kind != "LOOKUP":
            lock.in_io = True
            yield from self._update(s, kind, file)
        yield from self._release(s, lock)
        if prefetch.acts(s.t) and kind != "REMOVE":
            yield from self._prefetch_siblings(s, file, directory)
        s.work(streams["mds_reply"], p.MDS_DONE[kind])
        s.t += s.draw(streams["net"])
        s.mark(p.MDS_REPLY[kind])

    def checkpoints(self, strand: Callable[[int, float], Strand], running: list[int]) -> Process:
        """Background process: repeatedly hold one lock while its part of the tree is written out.

        strand: (n, t) -> strand whose draws the n-th checkpoint uses. running[0]: number of requests not yet
        complete; at zero the process ends.
        """
        streams = self._streams
        t = 0.0
        for number in count():
            s = strand(number, t)
            s.t += s.draw(streams["checkpoint_gap"])
            yield s.t
            if running[0] == 0:
                return
            lock = self.locks[int(s.draw(streams["u_checkpoint"]) * len(self.locks))]
            if lock.held:
                lock.waiters.append(self._sleeper())
                yield None
                s.t = lock.granted_ns
            lock.held = lock.in_io = True
            s.t += s.draw(streams["checkpoint_hold"])
            yield s.t
            lock.release(s.t, self._loop)
            t = s.t

    def _sleeper(self) -> Process:
        current = self._loop.current
        assert current is not None, "a lock was waited for outside the loop"
        return current

    def _acquire(self, s: Strand, lock: Lock) -> Process:
        """Acquire a lock as an adaptive mutex: spin while the holder computes, sleep while it waits for a
        device.
        """
        streams = self._streams
        yield s.t
        spins = 0
        while lock.held:
            if lock.in_io or spins == self._p.max_spins:
                lock.waiters.append(self._sleeper())
                yield None
                s.t = lock.granted_ns  # handed over: stays held
                break
            spins += 1
            s.work(streams["lock_spin"], p.LOCK_RETRY)
            yield s.t
        lock.held = True
        s.work(streams["lock_op"], p.LOCK_ACQUIRE)

    def _release(self, s: Strand, lock: Lock) -> Process:
        s.work(self._streams["lock_op"], p.LOCK_RELEASE)
        yield s.t
        lock.release(s.t, self._loop)

    def _update(self, s: Strand, kind: str, file: int) -> Process:
        """Write a change to the B-tree: one MDS ↔ storage node round trip per page."""
        streams = self._streams
        node, allocates = self._meta_node, False
        config = self._config
        # One decision a request: its item lies in a segment that lost its preallocation, or not.
        if config.acts(s.t) and s.draw(streams["u_config"]) < config.severity:
            node, allocates = self._data_node, True
            s.touch(config.cause, 0.0)
        if kind == "CREATE":
            pages = self._p.tree_pages + self._tree.insert(self._key(file) >> 5)
            growth = self._growth
            if growth.acts(s.t):
                progress = min(1.0, self._tree.inserted / self._expected_inserts)
                more = round(GROWTH * growth.severity * progress)
                linear_ns = LINEAR_NS * growth.severity * progress
                if linear_ns > 0.0:
                    s.touch(growth.cause, linear_ns)
                pages += more
                s.t += linear_ns
        elif kind == "REMOVE":
            pages = self._p.remove_pages
        else:
            pages = self._p.setattr_pages
        s.work(streams["mds_work"], p.TXN_BEGIN)
        for depth in range(pages):
            s.work(streams["latch"], p.LATCH)
            page = yield from self._visit_page(s, file, depth)
            yield from node.write(s, page, p.MDS_CALLER)
            s.work(streams["latch"], p.UNLATCH)
        if kind == "REMOVE":
            self.cache.drop(file)
        s.work(streams["mds_work"], p.TXN_COMMIT)
        yield from node.write(s, META_BLOCK, p.MDS_CALLER, allocates)
        s.work(streams["mds_work"], p.TREE_DONE)

    def _key(self, file: int) -> int:
        """Key of an item in the tree: new items get scattered keys, not keys after the last one (NSDI
        8.5)."""
        return (file * KEY_SPREAD >> 7) % self._p.tree_items

    def _page(self, file: int, depth: int) -> int:
        """Block number of the page at `depth` on the path to an item.

        A leaf (depth 0) is shared by a few neighbouring items; pages further up by more and more items.
        """
        return META_BLOCK + ((depth + 1) << 44) + (self._key(file) >> 3 + self._p.fan_out_bits * depth)

    def _visit_page(self, s: Strand, file: int, depth: int) -> Generator[float | None, None, int]:
        """Bring a page of the tree into memory; returns its block number."""
        page = self._page(file, depth)
        yield s.t
        if self._pages.touch(page):
            s.work(self._streams["tree_work"], p.TREE_NODE)
        else:
            s.work(self._streams["tree_work"], p.TREE_NODE_MISS)
            yield from self._meta_node.read(s, page, p.MDS_CALLER)
        return page

    def _prefetch_siblings(self, s: Strand, file: int, directory: int) -> Process:
        """Fault `F3-prefetch`: send a directory's other items to the client, with a lock round for each."""
        streams = self._streams
        spread = s.draw(streams["u_prefetch"])
        if s.draw(streams["u_prefetch"]) >= self._prefetch.severity or self._prefetched.touch(directory):
            return
        yield s.t
        for i in range(PREFETCH_MIN + int(PREFETCH_SPAN * spread)):
            s.touch(self._prefetch.cause, 0.0)
            lock = self.locks[(directory + i) % len(self.locks)]
            yield from self._acquire(s, lock)
            s.t += s.draw(streams["prefetch_item"])
            yield from self._release(s, lock)
            if self.attributes is not None:
                self.attributes.touch(file + i * self._p.directories)
