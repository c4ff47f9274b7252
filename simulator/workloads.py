"""Benchmarks of the papers (NSDI 6.2): which operations, by which client, when, at which rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from schemas.arrays import B1, F8, I8
from simulator.parameters import Parameters
from simulator.points import OPERATIONS

BLOCK_BYTES = 16 * 1024
"""Preferred I/O size of the NFS server, and block size of its cache."""
SUB_BITS = 6
"""Number of bits of a part number: a request's uid is `index << 6 | part`; parts other than 0 only exist
under a fault.
"""
REVALIDATION = (1 << SUB_BITS) - 1
"""Part number, in a uid, of a GETATTR that a client adds after a pause (fault `F6-client-pause`)."""


@dataclass(frozen=True, slots=True)
class IssuedRequests:
    """Requests of one shard as columns [n], in the order in which clients issue them."""

    uid: I8
    """[n] `index << SUB_BITS | part`; unique over all shards of a run, the same with and without a fault."""
    op: I8
    """[n] operation, an index into OPERATIONS."""
    file: I8
    offset: I8
    """[n] offset in the file, bytes."""
    count: I8
    """[n] bytes of a READ, WRITE or READLINK; entries of a READDIR."""
    stable: B1
    """[n] for a WRITE: True if the client waits until the data is on a storage node."""
    grows: B1
    """[n] for a WRITE: True if the file grows, so that the metadata server must be told."""
    sequential: B1
    """[n] for a READ: True if the next block will be read as well."""
    client: I8
    gap_ns: F8
    """[n] gap before each request, ns: in open workloads the time since the previous arrival of any client;
    in closed ones the think time before issuing."""

    def __len__(self) -> int:
        return len(self.uid)


@dataclass(frozen=True, slots=True)
class OfferedLoad:
    """Requests of one shard, and the cache contents before it."""

    requests: IssuedRequests
    open_loop: bool
    clients: int
    warm_files: I8
    """[warm files] distinct files used before the run, oldest first."""
    warm_blocks: I8
    """[warm files] number of data blocks read of each file; 0: none."""
    n_creates: int
    """Number of CREATE requests."""


Rng = np.random.Generator
OP = {name: i for i, name in enumerate(OPERATIONS)}
NEW_FILE = 1 << 30
"""Number of the first file created during a run."""

SFS_LEVELS = (50, 100, 150, 200, 250, 300, 350)
"""Load levels of SFS97, operations per second, offered one after the other (NSDI 6.2)."""
SFS_MIX = {
    "LOOKUP": 27,
    "READ": 18,
    "GETATTR": 11,
    "WRITE": 9,
    "READDIRPLUS": 9,
    "READLINK": 7,
    "ACCESS": 7,
    "COMMIT": 5,
    "READDIR": 2,
    "CREATE": 1,
    "REMOVE": 1,
    "SETATTR": 1,
    "FSSTAT": 1,
}
"""Operation -> share of the requests, percent; the published mix of SPEC SFS 3.0 for NFS v3."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Benchmark: its generator, the parameters of its installation, and its size in the papers."""

    name: str
    about: str
    parameters: Parameters
    generate: Callable[[int, int, Rng, Parameters], OfferedLoad]
    """Function (number of requests, shard, random source, parameters) -> load of the shard."""
    shares: tuple[float, ...]
    """Share of the requests, in [0, 1], in each shard. Shards are load levels, simulated one after the other
    in time.
    """
    paper_requests: int
    """Number of requests that the papers sampled, at 10 %."""


def power_law(rng: Rng, n: int, population: int, exponent: float) -> I8:
    """`n` random file numbers below `population`; the larger the exponent, the more often the first ones."""
    files: I8 = (population * rng.random(n) ** exponent).astype(np.int64)
    return files


def last_uses(files: I8) -> I8:
    """Distinct files in order of last use, i.e. the content of a least-recently-used cache."""
    last = np.full(int(files.max(initial=0)) + 1, -1, dtype=np.int64)
    np.maximum.at(last, files, np.arange(len(files)))
    return files[np.sort(last[last >= 0])]


def choose(rng: Rng, n: int, values: Mapping[int, float]) -> I8:
    """`n` random keys of `values`, with probability proportional to the values."""
    weight = np.array(list(values.values()), dtype=np.float64)
    chosen: I8 = np.array(list(values), dtype=np.int64)[
        rng.choice(len(weight), size=n, p=weight / weight.sum())
    ]
    return chosen


def by_file(file: I8, values: Mapping[int, float]) -> I8:
    """Property of each file, e.g. its size: a key of `values`, chosen by a hash of the file number with
    probability proportional to its value."""
    weight = np.cumsum(np.array(list(values.values()), dtype=np.float64))
    place = ((file * 2654435761) % (1 << 32)).astype(np.float64) / 2.0**32 * weight[-1]
    sizes: I8 = np.array(list(values), dtype=np.int64)[np.searchsorted(weight, place, side="right")]
    return sizes


def assemble(op: I8, file: I8, gap_ns: F8, **columns: I8) -> IssuedRequests:
    """Requests from the given columns; columns that are not given are filled with 0 or False."""
    uid = np.arange(len(op), dtype=np.int64) << SUB_BITS
    zero = np.zeros_like(uid)
    offset, count, client = (columns.get(name, zero) for name in ("offset", "count", "client"))
    stable, grows, sequential = (
        columns.get(name, zero).astype(bool) for name in ("stable", "grows", "sequential")
    )
    return IssuedRequests(uid, op, file, offset, count, stable, grows, sequential, client, gap_ns)


SFS_FILE_BLOCKS = {1: 0.66, 2: 0.17, 3: 0.07, 4: 0.06, 6: 0.025, 8: 0.015}
SFS_FILES, SFS_SKEW = 24_000, 3.0
SFS_ENTRIES = {4: 0.2, 8: 0.3, 16: 0.3, 32: 0.15, 48: 0.05}


def sfs97(n: int, shard: int, rng: Rng, parameters: Parameters) -> OfferedLoad:
    """SPEC SFS 97: open loop, Poisson arrivals, one load level a shard, popularity by a power law."""
    op = choose(rng, n, {OP[name]: share for name, share in SFS_MIX.items()})
    file = power_law(rng, n, SFS_FILES, SFS_SKEW)
    created = np.flatnonzero(op == OP["CREATE"])
    file[created] = NEW_FILE + shard * n + created
    blocks = by_file(file, SFS_FILE_BLOCKS)
    entries = by_file(file % parameters.directories, SFS_ENTRIES)
    part = np.maximum(512, (rng.random(n) * BLOCK_BYTES).astype(np.int64))
    partial = rng.random(n) < 0.15
    whole = blocks * BLOCK_BYTES
    count = np.where(op == OP["WRITE"], np.where(partial, part, whole), whole)
    count[op == OP["READLINK"]] = 512
    readdir = (op == OP["READDIR"]) | (op == OP["READDIRPLUS"])
    requests = assemble(
        op,
        file,
        rng.standard_exponential(n) * (1e9 / SFS_LEVELS[shard]),
        count=np.where(readdir, entries, count),
        stable=(rng.random(n) < 0.6).astype(np.int64),
        grows=(rng.random(n) < 0.15).astype(np.int64),
        client=rng.integers(0, 8, n),
    )
    warm = last_uses(power_law(rng, 60_000, SFS_FILES, SFS_SKEW))
    return OfferedLoad(requests, True, 8, warm, by_file(warm, SFS_FILE_BLOCKS), len(created))


@dataclass(frozen=True, slots=True)
class ClientSession:
    """Sequence of operations of a client on one file, for example one transaction of Postmark."""

    share: float
    ops: tuple[str, ...]
    new_file: bool = False


def expand(rng: Rng, n: int, sessions: tuple[ClientSession, ...], clients: int) -> tuple[I8, I8, I8, I8]:
    """Draw sessions until they have `n` requests; return [n] op, session number, session kind and client of
    each request."""
    share = np.array([s.share for s in sessions])
    length = np.array([len(s.ops) for s in sessions])
    width = int(length.max())
    table = np.array([[OP[o] for o in s.ops] + [0] * (width - len(s.ops)) for s in sessions], dtype=np.int64)
    n_sessions = int(n / float((share / share.sum()) @ length) * 1.05) + width + 10
    kind = rng.choice(len(sessions), size=n_sessions, p=share / share.sum())
    number = np.repeat(np.arange(n_sessions), length[kind])[:n]
    first = np.cumsum(length[kind]) - length[kind]
    position = np.arange(len(number)) - first[number]
    return table[kind[number], position], number, kind[number], number % clients


POSTMARK_FILES = 200_000
POSTMARK_SESSIONS = (
    ClientSession(0.40, ("LOOKUP", "CREATE", "WRITE", "COMMIT"), new_file=True),
    ClientSession(0.20, ("LOOKUP", "REMOVE")),
    ClientSession(0.22, ("LOOKUP", "GETATTR", "READ")),
    ClientSession(0.18, ("LOOKUP", "WRITE", "COMMIT")),
)


def postmark(n: int, _shard: int, rng: Rng, _parameters: Parameters) -> OfferedLoad:
    """Postmark-large: small files, created, read, appended to, deleted; a few clients without think time."""
    clients = 4
    op, number, kind, client = expand(rng, n, POSTMARK_SESSIONS, clients)
    n_sessions = int(number[-1]) + 1 if n else 0
    old = power_law(rng, n_sessions, POSTMARK_FILES, 1.6)
    creates = np.array([s.new_file for s in POSTMARK_SESSIONS])
    file = np.where(creates[kind], NEW_FILE + number, old[number])
    size = np.maximum(512, (rng.random(n_sessions) * 10_240).astype(np.int64))
    blocks = by_file(file, {1: 0.9, 2: 0.08, 3: 0.02})
    appends = (op == OP["WRITE"]) & ~creates[kind]
    requests = assemble(
        op,
        file,
        rng.standard_exponential(n) * 300e3,
        offset=np.where(appends, 4096, 0),
        count=np.where(op == OP["READ"], blocks * BLOCK_BYTES, size[number] if n else 0),
        grows=np.ones(n, dtype=np.int64),
        client=client,
    )
    warm = last_uses(power_law(rng, 60_000, POSTMARK_FILES, 1.6))
    n_creates = int(np.count_nonzero(op == OP["CREATE"]))
    return OfferedLoad(requests, False, clients, warm, np.ones(len(warm), dtype=np.int64), n_creates)


LINUX_FILES = 31_000
COPY_SESSIONS = (
    ClientSession(0.70, ("LOOKUP", "CREATE", "WRITE", "SETATTR", "COMMIT"), new_file=True),
    ClientSession(0.20, ("LOOKUP", "CREATE", "WRITE", "WRITE", "WRITE", "SETATTR", "COMMIT"), new_file=True),
    ClientSession(0.10, ("LOOKUP", "ACCESS", "GETATTR")),
)
BUILD_SESSIONS = (
    ClientSession(0.42, ("LOOKUP", "GETATTR", "ACCESS")),
    ClientSession(0.30, ("GETATTR", "GETATTR")),
    ClientSession(0.15, ("LOOKUP", "ACCESS", "GETATTR", "READ")),
    ClientSession(0.09, ("LOOKUP", "GETATTR", "READ", "READ")),
    ClientSession(0.02, ("LOOKUP", "CREATE", "WRITE", "WRITE", "COMMIT"), new_file=True),
    ClientSession(0.01, ("ACCESS", "READDIRPLUS")),
    ClientSession(0.01, ("LOOKUP", "REMOVE")),
)
SOURCE_BLOCKS = {1: 0.72, 2: 0.16, 3: 0.06, 4: 0.04, 6: 0.02}


def build(
    n: int, _shard: int, rng: Rng, parameters: Parameters, *, copy_share: float, skew: float
) -> OfferedLoad:
    """Build of a source tree: a copy phase, then a compilation, mostly look-ups of headers looked up
    before.
    """
    clients = 4
    n_copy = int(n * copy_share)
    copied = expand(rng, n_copy, COPY_SESSIONS, clients)
    built = expand(rng, n - n_copy, BUILD_SESSIONS, clients)
    n_sessions = (int(copied[1][-1]) + 1 if n_copy else 0, int(built[1][-1]) + 1)
    op, client = np.concatenate([copied[0], built[0]]), np.concatenate([copied[3], built[3]])
    new = np.concatenate(
        [
            np.array([s.new_file for s in COPY_SESSIONS])[copied[2]],
            np.array([s.new_file for s in BUILD_SESSIONS])[built[2]],
        ]
    )
    number = np.concatenate([copied[1], built[1] + n_sessions[0]])
    old = power_law(rng, sum(n_sessions), LINUX_FILES, skew)
    file = np.where(new, NEW_FILE + number, old[number])
    blocks = by_file(file, SOURCE_BLOCKS)
    entries = by_file(file % parameters.directories, {4: 0.7, 6: 0.3})
    count = blocks * BLOCK_BYTES
    count[op == OP["READDIRPLUS"]] = entries[op == OP["READDIRPLUS"]]
    requests = assemble(
        op,
        file,
        rng.standard_exponential(n) * 4e6,
        count=count,
        grows=np.ones(n, dtype=np.int64),
        sequential=(blocks > 2).astype(np.int64),
        client=client,
    )
    warm = last_uses(power_law(rng, 40_000, LINUX_FILES, skew))
    n_creates = int(np.count_nonzero(op == OP["CREATE"]))
    return OfferedLoad(requests, False, clients, warm, by_file(warm, SOURCE_BLOCKS), n_creates)


def iozone(n: int, _shard: int, rng: Rng, _parameters: Parameters) -> OfferedLoad:
    """IoZone: one large file written, rewritten, read, reread, block by block, by four client threads."""
    clients = 4
    quarter = -(-n // 4)
    row = np.arange(n)
    phase, block = row // quarter, row % quarter
    op = np.where(phase < 2, OP["WRITE"], OP["READ"])
    requests = assemble(
        op.astype(np.int64),
        np.zeros(n, dtype=np.int64),
        rng.standard_exponential(n) * 200e3,
        offset=block * BLOCK_BYTES,
        count=np.full(n, BLOCK_BYTES, dtype=np.int64),
        grows=((phase == 0) & (block % 64 == 0)).astype(np.int64),
        sequential=np.ones(n, dtype=np.int64),
        client=row % clients,
    )
    none = np.zeros(0, dtype=np.int64)
    return OfferedLoad(requests, False, clients, none, none, 0)


_SFS = Parameters(
    attr_entries=10_500,
    data_blocks=6_000,
    mds_entries=13_000,
    mds_pages=1_500,
    sn_blocks=30_000,
    sn_meta_blocks=2_500,
    directories=400,
    lock_stripes=32,
    max_spins=3,
    checkpoint_gap_us=7_000,
    lookup_pages=1,
    tree_pages=3,
    remove_pages=2,
)
_POSTMARK = Parameters(
    attr_entries=30_000,
    data_blocks=20_000,
    mds_entries=60_000,
    mds_pages=8_000,
    sn_blocks=25_000,
    sn_meta_blocks=25_000,
    directories=448,
    lock_stripes=448,
    max_spins=3,
    checkpoint_gap_us=2_000_000,
    page_items=8,
    tree_levels=6,
    tree_pages=8,
    remove_pages=7,
    setattr_pages=3,
    tree_items=200_000,
    fan_out_bits=1,
)
_LINUX = Parameters(
    attr_entries=16_000,
    data_blocks=12_000,
    mds_entries=22_000,
    mds_pages=3_000,
    sn_blocks=24_000,
    sn_meta_blocks=24_000,
    directories=1_900,
    lock_stripes=128,
    max_spins=3,
    checkpoint_gap_us=10_000,
    tree_pages=2,
)
_SFS_TOTAL = sum(SFS_LEVELS)

WORKLOADS: dict[str, Workload] = {
    w.name: w
    for w in (
        Workload(
            "postmark-large",
            "small files created, read, appended to and deleted; four clients without pause",
            _POSTMARK,
            postmark,
            (1.0,),
            131_113,
        ),
        Workload(
            "sfs97",
            "SPEC SFS 97 operation mix, open loop, 50 to 350 operations a second",
            _SFS,
            sfs97,
            tuple(level / _SFS_TOTAL for level in SFS_LEVELS),
            210_669,
        ),
        Workload(
            "linux-build",
            "untar and compile a kernel",
            _LINUX,
            partial(build, copy_share=0.12, skew=2.2),
            (1.0,),
            145_167,
        ),
        Workload("iozone", "one 5 GB file written, rewritten, read, reread", _LINUX, iozone, (1.0,), 32_000),
        Workload(
            "ursa-minor-build",
            "untar and compile a smaller tree",
            _LINUX,
            partial(build, copy_share=0.18, skew=2.6),
            (1.0,),
            16_000,
        ),
    )
}
