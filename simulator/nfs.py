"""NFS server: attribute cache, data cache in 16 KB blocks, write-back; one generator per operation."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from simulator import points as p
from simulator.engine import Gather, Loop, Lru, Process, SimulatedFlow, Strand
from simulator.faults import FaultMechanism, Injections, injected
from simulator.metadata import MetadataServer
from simulator.parameters import Parameters
from simulator.storage import StorageNode
from simulator.streams import Stream
from simulator.workloads import BLOCK_BYTES, IssuedRequests

BLOCK_BITS = 20
"""Number of bits of a block's index in its file: a data block is numbered `file << 20 | index`."""
PARALLEL = 8
"""Maximum number of storage calls of one request in flight at a time."""
BUCKET_NS = 25.0
"""Fault `F7-one-bucket`: time for one entry of the overlong hash chain at severity 1, ns."""
BACKOFF_NS = 1e9
"""Fault `F10-stale-backoff`: time of a back-off, ns."""

Operation = Callable[[Strand, int], Process]
BlockCall = Callable[[Strand, int, p.CallerPoints], Process]


def _branch(child: Strand, work: Process, gather: Gather) -> Process:
    """Process: run `work` on a strand that is one of several branches, then report its end to `gather`."""
    yield from work
    yield child.t
    gather.done(child.t)


class NfsServer:
    """NFS server that serves the requests of a workload, by their rows."""

    def __init__(
        self,
        loop: Loop,
        parameters: Parameters,
        streams: dict[str, Stream],
        requests: IssuedRequests,
        mds: MetadataServer,
        data_node: StorageNode,
        injections: Injections,
        closed: Callable[[SimulatedFlow], None],
    ) -> None:
        self._loop, self._p, self._streams, self._mds = loop, parameters, streams, mds
        self._closed = closed
        self._data_node = data_node
        self.attributes = Lru(parameters.attr_entries)
        self.blocks = Lru(parameters.data_blocks)
        mds.attributes = self.attributes
        self._dirty: OrderedDict[int, list[int]] = OrderedDict()
        self._n_dirty = 0
        self._handles = 0
        self._file, self._op = requests.file.tolist(), requests.op.tolist()
        self._offset, self._count = requests.offset.tolist(), requests.count.tolist()
        self._stable, self._grows = requests.stable.tolist(), requests.grows.tolist()
        self._sequential = requests.sequential.tolist()
        self._bucket = injected(injections, FaultMechanism.ONE_BUCKET)
        self._readdir = injected(injections, FaultMechanism.READDIR_LOOP)
        self._stale = injected(injections, FaultMechanism.STALE_BACKOFF)
        self._one_by_one = injected(injections, FaultMechanism.SEQUENTIAL_READ)
        self._small_io = injected(injections, FaultMechanism.SMALL_IO)
        self._operations: list[Operation] = [
            self._attributes_only,  # LOOKUP
            self._read,
            self._attributes_only,  # GETATTR
            self._write,
            self._readdir_plus,
            self._read,  # READLINK: the link is a block of data
            self._attributes_only,  # ACCESS
            self._commit,
            self._readdir_names,
            self._create,
            self._remove,
            self._setattr,
            self._fsstat,
        ]

    def add_row(self, like: int, op: int, offset: int, count: int) -> int:
        """Add a request for a fault: a copy of row `like` with another op, offset and count.

        Returns the row of the new request.
        """
        self._op.append(op)
        self._offset.append(offset)
        self._count.append(count)
        for column in (self._file, self._stable, self._grows, self._sequential):
            column.append(column[like])
        return len(self._op) - 1

    def shorten(self, row: int, count: int) -> None:
        """Reduce the byte count of row `row`, a READ or WRITE."""
        self._count[row] = count

    def describe(self, row: int) -> tuple[int, int, int, int]:
        """Low-level parameters of the call in row `row`: (op, file, offset, count)."""
        return self._op[row], self._file[row], self._offset[row], self._count[row]

    def serve(self, s: Strand, row: int) -> Process:
        """Serve the request of row `row` on its first strand `s`, from call to reply; begins at the strand's
        time `s.t`."""
        op = self._op[row]
        s.mark(p.OP_CALL[op])
        yield from self._operations[op](s, row)
        s.work(self._streams["nfs_reply"], p.OP_REPLY[op])

    def close_strand(self, flow: SimulatedFlow) -> None:
        """End a strand that is not joined; the request is complete when its last strand has ended."""
        flow.live -= 1
        if flow.live == 0:
            self._closed(flow)

    def _attributes(self, s: Strand, file: int) -> Process:
        """Simulate the beginning that all operations share: CPU, the handle's attributes, the metadata server
        on a miss.
        """
        streams = self._streams
        hit = self.attributes.touch(file)
        s.work(streams["decode"], p.DECODED)
        s.t += s.draw(streams["handle"])
        bucket = self._bucket
        if bucket.acts(s.t):
            self._handles += 1
            added = BUCKET_NS * bucket.severity * self._handles
            s.touch(bucket.cause, added)
            s.t += added
        s.mark(p.HANDLE)
        s.t += s.draw(streams["nfs_cpu"])
        if hit:
            s.work(streams["attr_hit"], p.ATTR_HIT)
        else:
            s.work(streams["attr_hit"], p.ATTR_MISS)
            yield from self._mds.call(s, "LOOKUP", file)

    def _attributes_only(self, s: Strand, row: int) -> Process:
        yield from self._attributes(s, self._file[row])

    def _fsstat(self, s: Strand, row: int) -> Process:  # noqa: ARG002 - an Operation
        s.work(self._streams["nfs_cpu"], p.ATTR_HIT)
        yield from ()

    def _setattr(self, s: Strand, row: int) -> Process:
        yield from self._attributes(s, self._file[row])
        yield from self._mds.call(s, "SETATTR", self._file[row])

    def _create(self, s: Strand, row: int) -> Process:
        file = self._file[row]
        # The directory's attributes; directories have negative numbers.
        yield from self._attributes(s, -1 - file % self._p.directories)
        yield from self._mds.call(s, "CREATE", file)
        yield s.t
        self.attributes.touch(file)

    def _remove(self, s: Strand, row: int) -> Process:
        file = self._file[row]
        yield from self._attributes(s, file)
        yield from self._mds.call(s, "REMOVE", file)
        yield s.t
        self.attributes.drop(file)
        self._n_dirty -= len(self._dirty.pop(file, ()))

    def _read(self, s: Strand, row: int) -> Process:
        streams, file = self._streams, self._file[row]
        yield from self._attributes(s, file)
        yield s.t
        first = (file << BLOCK_BITS) + self._offset[row] // BLOCK_BYTES
        n = max(1, -(-self._count[row] // BLOCK_BYTES))
        missing = []
        for block in range(first, first + n):
            if self.blocks.touch(block):
                s.work(streams["block_hit"], p.DATA_HIT)
            else:
                s.work(streams["block_hit"], p.DATA_MISS)
                missing.append(block)
        if not missing:
            return
        yield from self._wait_if_stale(s)
        yield from self._fetch(s, missing)
        if self._sequential[row]:
            yield s.t
            self._read_ahead(s, first + n)
        s.work(streams["block_hit"], p.BLOCK_FILL)

    def _fetch(self, s: Strand, blocks: list[int]) -> Process:
        """Read blocks from the data node: together, or one after another under the fault
        `F14-sequential-read`.
        """
        node = self._data_node
        if len(blocks) == 1 or not self._one_by_one.acts(s.t):
            yield from self._together(s, blocks, node.read, p.READ_FORK, p.READ_JOIN)
            return
        for block in blocks:
            s.touch(self._one_by_one.cause, 0.0)
            yield from node.read(s, block, p.NFS_CALLER)

    def _store(self, s: Strand, blocks: list[int]) -> Process:
        """Write blocks to the data node."""
        yield from self._together(s, blocks, self._data_node.write, p.WRITE_FORK, p.WRITE_JOIN)

    def _together(self, s: Strand, blocks: list[int], call: BlockCall, fork: int, join: int) -> Process:
        """Call a storage node for each block: on this strand if there is one block, else in parallel on child
        strands.

        fork, join: trace points of the split and of the join.
        """
        for at in range(0, len(blocks), PARALLEL):
            batch = blocks[at : at + PARALLEL]
            if len(batch) == 1:
                yield from call(s, batch[0], p.NFS_CALLER)
                continue
            yield s.t
            children = s.fork(fork, len(batch))
            gather = Gather(self._loop, len(children))
            for child, block in zip(children, batch, strict=True):
                self._loop.start(child.t, _branch(child, call(child, block, p.NFS_CALLER), gather))
            yield from gather.wait()
            s.join(join, children)

    def _defer(self, s: Strand, work: Callable[[Strand], Process], begin: int, end: int) -> None:
        """Start work that the response does not wait for, on a child strand.

        begin, end: trace points at its start and its end.
        """
        (child,) = s.fork(p.DEFER_FORK, 1)
        flow = s.flow
        flow.live += 1

        def run() -> Process:
            child.work(self._streams["block_hit"], begin)
            yield from work(child)
            child.work(self._streams["block_hit"], end)
            yield child.t
            self.close_strand(flow)

        self._loop.start(child.t, run())

    def _read_ahead(self, s: Strand, block: int) -> None:
        if not self.blocks.touch(block):
            node = self._data_node
            self._defer(s, lambda c: node.read(c, block, p.NFS_CALLER), p.AHEAD_BEGIN, p.AHEAD_END)

    def _write(self, s: Strand, row: int) -> Process:
        streams, file = self._streams, self._file[row]
        yield from self._attributes(s, file)
        yield s.t
        offset, size = self._offset[row], self._count[row]
        first = offset // BLOCK_BYTES
        last = (offset + size - 1) // BLOCK_BYTES
        blocks = [(file << BLOCK_BITS) + i for i in range(first, last + 1)]
        for index, block in enumerate(blocks):
            start = max(offset, (first + index) * BLOCK_BYTES)
            end = min(offset + size, (first + index + 1) * BLOCK_BYTES)
            cached = self.blocks.touch(block)
            partial = end - start < BLOCK_BYTES and not (self._grows[row] and start % BLOCK_BYTES == 0)
            if partial:
                # Read-modify-write: a part of a block can only be changed in the whole block (NSDI 8.3).
                if self._small_io.acts(s.t) and size < BLOCK_BYTES:
                    s.touch(self._small_io.cause, 0.0)
                if cached:
                    s.work(streams["block_hit"], p.DATA_HIT)
                else:
                    s.work(streams["block_hit"], p.DATA_MISS)
                    yield from self._data_node.read(s, block, p.NFS_CALLER)
            s.work(streams["modify"], p.MODIFY_PART if partial else p.MODIFY)
        yield s.t
        if self._stable[row]:
            yield from self._store(s, blocks)
        else:
            self._keep_dirty(s, file, blocks)
        if self._grows[row]:
            yield from self._mds.call(s, "SETATTR", file)

    def _keep_dirty(self, s: Strand, file: int, blocks: list[int]) -> None:
        known = self._dirty.setdefault(file, [])
        new = [b for b in blocks if b not in known]
        known.extend(new)
        self._n_dirty += len(new)
        if self._n_dirty > self._p.dirty_blocks:
            oldest = self._take_dirty(PARALLEL)
            self._defer(s, lambda c: self._write_back(c, oldest), p.FLUSH_BEGIN, p.FLUSH_END)

    def _take_dirty(self, limit: int) -> list[int]:
        taken: list[int] = []
        while self._dirty and len(taken) < limit:
            file, blocks = next(iter(self._dirty.items()))
            part = blocks[: limit - len(taken)]
            taken += part
            if len(part) == len(blocks):
                del self._dirty[file]
            else:
                self._dirty[file] = blocks[len(part) :]
        self._n_dirty -= len(taken)
        return taken

    def _write_back(self, s: Strand, blocks: list[int]) -> Process:
        for block in blocks:
            yield from self._data_node.write(s, block, p.NFS_CALLER)

    def _commit(self, s: Strand, row: int) -> Process:
        file = self._file[row]
        yield from self._attributes(s, file)
        yield s.t
        blocks = self._dirty.pop(file, [])
        self._n_dirty -= len(blocks)
        yield from self._store(s, blocks)

    def _directory_block(self, s: Strand, directory: int) -> Process:
        block = -1 - directory
        yield s.t
        if self.blocks.touch(block):
            s.work(self._streams["block_hit"], p.DATA_HIT)
            return
        s.work(self._streams["block_hit"], p.DATA_MISS)
        yield from self._data_node.read(s, block, p.NFS_CALLER)

    def _rounds(self, s: Strand, n: int) -> int:
        """Number of passes over `n` directory entries: 1, or 1 + n at severity 1 of the fault
        `F8-readdir-loop`.
        """
        fault = self._readdir
        if not fault.acts(s.t):
            return 1
        extra = round(fault.severity * n)
        if extra:
            s.touch(fault.cause, 0.0)
        return 1 + extra

    def _readdir_names(self, s: Strand, row: int) -> Process:
        directory = self._file[row] % self._p.directories
        yield from self._attributes(s, -1 - directory)
        yield from self._directory_block(s, directory)
        n = self._count[row]
        for _ in range(self._rounds(s, n)):
            for _ in range(n):
                s.work(self._streams["entry"], p.ENTRY)

    def _readdir_plus(self, s: Strand, row: int) -> Process:
        streams = self._streams
        directory = self._file[row] % self._p.directories
        yield from self._attributes(s, -1 - directory)
        yield from self._directory_block(s, directory)
        n = self._count[row]
        step = self._p.directories
        for _ in range(self._rounds(s, n)):
            for i in range(n):
                entry = directory + i * step
                yield s.t
                if self.attributes.touch(entry):
                    s.work(streams["entry"], p.ENTRY_HIT)
                else:
                    s.work(streams["entry"], p.ENTRY_MISS)
                    yield from self._mds.call(s, "LOOKUP", entry)

    def _wait_if_stale(self, s: Strand) -> Process:
        """Fault `F10-stale-backoff`: wait before a read, in the share of reads whose location is stale."""
        stale = self._stale
        if not stale.acts(s.t):
            return
        if s.draw(self._streams["u_stale"]) < stale.severity:
            s.touch(stale.cause, BACKOFF_NS)
            s.t += BACKOFF_NS
            yield s.t
