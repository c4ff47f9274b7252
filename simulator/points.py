"""Trace points of the simulated service: a code for each (host, component, point, label, status).

A strand of a request is a list of steps; a step is a code and a time. `Span` is the point's role when the
same strand is reported as spans: a call opens a span, the reply closes it, anything else is a leaf span that
lasts from the step before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

NFS_HOST, MDS_HOST, META_HOST, DATA_HOST = "nfs-a", "mds-a", "sn-meta", "sn-data"
HOSTS = (NFS_HOST, MDS_HOST, META_HOST, DATA_HOST)
OPERATIONS = (
    "LOOKUP",
    "READ",
    "GETATTR",
    "WRITE",
    "READDIRPLUS",
    "READLINK",
    "ACCESS",
    "COMMIT",
    "READDIR",
    "CREATE",
    "REMOVE",
    "SETATTR",
    "FSSTAT",
)
"""NFS operations; the number `op` of a request is an index into this tuple."""
METADATA_CALLS = ("LOOKUP", "CREATE", "REMOVE", "SETATTR")


class Span(Enum):
    """Effect of a step on the stack of open spans."""

    SERVER = 2
    CLIENT = 3
    CONSUMER = 5
    CLOSE = -1
    LEAF = 1
    NONE = 0


@dataclass(frozen=True, slots=True)
class Point:
    """Trace point. kind: kind of the native record; span_name: name of the span that a call opens."""

    host: str
    component: str
    name: str
    label: str = ""
    kind: str = "event"
    span: Span = Span.LEAF
    span_name: str = ""
    status: str = "ok"
    params: tuple[tuple[str, str | int], ...] = ()


POINTS: list[Point] = []
"""All trace points; a code is an index into this list. Filled below, constant after import."""


def _add(point: Point) -> int:
    POINTS.append(point)
    return len(POINTS) - 1


def _nfs(name: str, label: str = "", kind: str = "event", span: Span = Span.LEAF) -> int:
    return _add(Point(NFS_HOST, "nfs", name, label, kind, span))


def _mds(name: str, label: str = "") -> int:
    return _add(Point(MDS_HOST, "mds", name, label, "event", Span.LEAF))


OP_CALL = tuple(
    _add(Point(NFS_HOST, "nfs", f"{op}_CALL", span=Span.SERVER, span_name=f"NFS.{op}")) for op in OPERATIONS
)
OP_REPLY = tuple(
    _add(Point(NFS_HOST, "nfs", f"{op}_REPLY", kind="end", span=Span.CLOSE)) for op in OPERATIONS
)
ATTR_HIT, ATTR_MISS = _nfs("ATTR_CACHE", "HIT"), _nfs("ATTR_CACHE", "MISS")
DATA_HIT, DATA_MISS = _nfs("DATA_CACHE", "HIT"), _nfs("DATA_CACHE", "MISS")
ENTRY_HIT, ENTRY_MISS = _nfs("DIR_ENTRY", "HIT"), _nfs("DIR_ENTRY", "MISS")
ENTRY = _nfs("DIR_ENTRY")
BLOCK_FILL = _nfs("BLOCK_FILL")
DECODED, HANDLE = _nfs("RPC_DECODED"), _nfs("HANDLE_LOOKUP")
MODIFY, MODIFY_PART = _nfs("BLOCK_MODIFY", "WHOLE"), _nfs("BLOCK_MODIFY", "PART")
READ_FORK, READ_JOIN = _nfs("READ_FORK", "", "split", Span.NONE), _nfs("READ_JOIN", "", "join", Span.NONE)
WRITE_FORK, WRITE_JOIN = (
    _nfs("WRITE_FORK", "", "split", Span.NONE),
    _nfs("WRITE_JOIN", "", "join", Span.NONE),
)
DEFER_FORK = _nfs("DEFER", "", "split", Span.NONE)
FLUSH_BEGIN = _add(Point(NFS_HOST, "nfs", "WRITE_BACK_BEGIN", span=Span.CONSUMER, span_name="write-back"))
FLUSH_END = _nfs("WRITE_BACK_END", "", "end", Span.CLOSE)
AHEAD_BEGIN = _add(Point(NFS_HOST, "nfs", "READ_AHEAD_BEGIN", span=Span.CONSUMER, span_name="read-ahead"))
AHEAD_END = _nfs("READ_AHEAD_END", "", "end", Span.CLOSE)

META_HIT, META_MISS = _mds("METADATA_CACHE", "HIT"), _mds("METADATA_CACHE", "MISS")
DISPATCH = _mds("DISPATCH")
LOCK_RETRY, LOCK_ACQUIRE, LOCK_RELEASE = _mds("LOCK_RETRY"), _mds("LOCK_ACQUIRE"), _mds("LOCK_RELEASE")
DB_READ = _mds("DB_READ")
TREE_NODE, TREE_NODE_MISS = _mds("BTREE_PAGE", "HIT"), _mds("BTREE_PAGE", "MISS")
TREE_DONE = _mds("BTREE_DONE")
LATCH, UNLATCH = _mds("PAGE_LATCH"), _mds("PAGE_UNLATCH")
TXN_BEGIN, TXN_COMMIT = _mds("TXN_BEGIN"), _mds("TXN_COMMIT")

MDS_CALL, MDS_REPLY, AT_MDS, MDS_DONE = {}, {}, {}, {}
"""Metadata call -> code of a trace point. MDS_CALL: sent by the NFS server; MDS_REPLY: reply received by it;
AT_MDS: received by the metadata server; MDS_DONE: reply sent by that.
"""
for _call in METADATA_CALLS:
    MDS_CALL[_call] = _add(
        Point(NFS_HOST, "nfs", f"MDS_{_call}_CALL", span=Span.CLIENT, span_name=f"mds.{_call}")
    )
    AT_MDS[_call] = _add(Point(MDS_HOST, "mds", f"{_call}_CALL", span=Span.SERVER, span_name=f"MDS.{_call}"))
    MDS_DONE[_call] = _add(Point(MDS_HOST, "mds", f"{_call}_REPLY", span=Span.CLOSE))
    MDS_REPLY[_call] = _nfs(f"MDS_{_call}_REPLY", span=Span.CLOSE)


@dataclass(frozen=True, slots=True)
class CallerPoints:
    """Codes of trace points on the component that calls a storage node."""

    read_call: int
    read_reply: int
    write_call: int
    write_reply: int
    read_error: int
    write_error: int
    retry: int


@dataclass(frozen=True, slots=True)
class NodePoints:
    """Codes of trace points on one storage node. `read_reply` ends reads, `write_reply` ends writes."""

    read: int
    write: int
    dispatch: int
    hit: int
    miss: int
    disk: int
    logged: int
    read_reply: int
    write_reply: int
    read_error: int
    write_error: int


def _caller(host: str, component: str) -> CallerPoints:
    def call(name: str) -> int:
        return _add(Point(host, component, f"SN_{name}_CALL", span=Span.CLIENT, span_name=f"storage.{name}"))

    def reply(name: str, status: str = "ok") -> int:
        return _add(Point(host, component, f"SN_{name}_REPLY", span=Span.CLOSE, status=status))

    return CallerPoints(
        call("READ"),
        reply("READ"),
        call("WRITE"),
        reply("WRITE"),
        reply("READ", "io-error"),
        reply("WRITE", "io-error"),
        _add(Point(host, component, "SN_RETRY")),
    )


def _node(host: str, write_params: tuple[tuple[str, str | int], ...]) -> NodePoints:
    def arrive(name: str, params: tuple[tuple[str, str | int], ...] = ()) -> int:
        return _add(
            Point(host, "sn", f"{name}_CALL", span=Span.SERVER, span_name=f"SN.{name}", params=params)
        )

    def inner(name: str, label: str = "") -> int:
        return _add(Point(host, "sn", name, label))

    def reply(status: str = "ok") -> int:
        return _add(Point(host, "sn", "STORAGE_NODE_RPC_REPLY", span=Span.CLOSE, status=status))

    return NodePoints(
        arrive("READ"),
        arrive("WRITE", write_params),
        inner("DISPATCH"),
        inner("BLOCK_CACHE", "HIT"),
        inner("BLOCK_CACHE", "MISS"),
        inner("DISK_READ"),
        inner("LOG_WRITE"),
        reply(),
        reply(),
        reply("io-error"),
        reply("io-error"),
    )


NFS_CALLER, MDS_CALLER = _caller(NFS_HOST, "nfs"), _caller(MDS_HOST, "mds")
PREALLOCATED = (("encoding", "preallocated"), ("fault_tolerance", 0), ("stripe_bytes", 65536))
"""Parameters of the metadata file's data distribution as configured; the fault `F1-mds-config` replaces them
by the defaults.
"""
DEFAULT_SCHEME = (("encoding", "default"), ("fault_tolerance", 1), ("stripe_bytes", 16384))
META_NODE, DATA_NODE = _node(META_HOST, PREALLOCATED), _node(DATA_HOST, DEFAULT_SCHEME)
