"""Population that an analysis works on: by category one graph and a node-by-request matrix.

`analyze.refine` makes it from the lake's rows; critical paths, attribution, methods and reports read it.
Requests belong to *samples*: a comparison has two, a history or a change-point search many, browsing one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemas.arrays import B1, F8, I4, I8, U1
from schemas.errors import PeriodError
from schemas.lake import PARAMS_SCHEMA, RECORDS, SPANS
from schemas.messages import is_message
from schemas.recorded import Recorded
from schemas.windows import NS_PER_MINUTE
from stitch.graph.placed import END, POINT, START
from stitch.graph.template import Template
from stitch.graph.text import split_words
from stitch.readings import reading_of

Codes = npt.NDArray[np.signedinteger[Any]]
"""Indices into a list of words, in the smallest type that fits; -1 for no word."""


_SIDE_MARK: Final = {POINT: "", START: ">", END: "<"}

DEFAULT_WINDOW_NS: Final = 5 * NS_PER_MINUTE
OK: Final = "ok"
"""Status of a root that did not fail."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Group of requests analyzed together: a period of a lake, optionally narrowed by a filter."""

    name: str
    """Name of the sample: `reference`, `problem`, a block of history, a version, …"""
    text: str = ""
    """Text of the period as a person would write it (UTC)."""
    start_ns: int = 0
    end_ns: int = 0
    """start_ns, end_ns: half-open interval, ns since the epoch."""
    where: str = ""
    """Filter expression; empty for none."""
    ranges: tuple[tuple[int, int], ...] = ()
    """Half-open ranges that make up the sample, ascending, disjoint; empty: `start_ns` to `end_ns`."""
    recorded: tuple[tuple[Recorded, ...], ...] = ()
    """[ranges] recordings that overlap the range; empty: unknown."""

    @property
    def length_ns(self) -> int:
        """Observed time, ns, without gaps between ranges."""
        return sum(end - start for start, end in self.ranges) if self.ranges else self.end_ns - self.start_ns


PAIR: Final = (Sample("reference"), Sample("problem"))
"""The two samples of a comparison, unnamed in time."""


class GraphNode(NamedTuple):
    """One node of a refined graph. A tuple, because tens of thousands are made in a comparison."""

    component: str
    point: str
    label: str | None = None
    """Semantic label."""
    host: str = ""
    """Host, if the label policy puts hosts into labels; else empty."""
    side: int = POINT
    """POINT, START or END of `stitch.graph.placed`."""

    @property
    def operation(self) -> str:
        """`component/point[/label]`, for display."""
        return f"{self.component}/{self.what}"

    @property
    def where(self) -> str:
        """`[host/]component`."""
        return f"{self.host}/{self.component}" if self.host else self.component

    @property
    def what(self) -> str:
        """Point of the node with its label, `point[/label]`: the operation without its component."""
        return self.point if self.label is None else f"{self.point}/{self.label}"

    @property
    def text(self) -> str:
        """`[host/]component/point[/label]` with `>` or `<` for the side of a span, for display."""
        return f"{self.where}/{self.what}{_SIDE_MARK[self.side]}"


@dataclass(frozen=True, slots=True)
class Nesting:
    """The spans behind the nodes of a graph; arrays are [nodes]."""

    owner: I4
    """Position of the start of the node's span; for a point inside a span its own position."""
    parent: I4
    """Position of the start of the owner's parent span; -1 for the root's."""
    kind: U1
    """`EventKind` of the event behind the node."""


class LeftBehind(NamedTuple):
    """Child that the response does not wait for and that the refinement removed."""

    parent: int
    """Position of the start of the span that started the child."""
    operation: str
    """`component/point[/label]`."""


@dataclass(frozen=True, slots=True)
class RecordedFailures:
    """Nodes that failed, sorted by (row, position); arrays are [failures]."""

    row: I4
    """Request of the category."""
    position: I4
    """Canonical position in the refined graph; for a span that of its start. Failures of removed nodes are
    dropped."""
    error: I4
    """Index into the population's `errors`."""

    def of_rows(self, rows: slice) -> RecordedFailures:
        """Failures of a range of requests, rows renumbered from 0."""
        start, stop, _ = rows.indices(np.iinfo(np.int32).max)
        first, past = np.searchsorted(self.row, (start, stop))
        return RecordedFailures(
            self.row[first:past] - np.int32(start), self.position[first:past], self.error[first:past]
        )


NO_FAILURES: Final = RecordedFailures(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int32))


class GraphText:
    """Text of a graph. Made at the first access, as most graphs are never shown: 10 µs a node."""

    def __init__(self, template: Callable[[], Template]) -> None:
        self._template = template

    @cached_property
    def _texts(self) -> tuple[str, str]:
        reading = reading_of(self._template())
        return reading.canonical, reading.canonical_l1

    @property
    def canonical(self) -> str:
        """Canonical text, for people."""
        return self._texts[0]

    @property
    def tokens(self) -> tuple[str, ...]:
        """Canonical token sequence at level L1, for the edit distance."""
        return split_words(self._texts[1])


@dataclass(frozen=True, slots=True)
class Graph:
    """A refined structure: labelled DAG over canonical positions, without times.

    Positions are a topological order (src < dst); 0 is the root.
    """

    key: str
    """32 hex digits; equal iff nodes, edges and responses are equal."""
    root: str
    """Root type, `component/point`."""
    nodes: tuple[GraphNode, ...]
    edges: I4
    """[edges, 2] (src, dst), sorted by (dst, src)."""
    responses: I4
    """Positions of nodes that may send the response."""
    text: GraphText = field(compare=False)
    nesting: Nesting | None = None
    """Nesting of spans; None for activity records. Not part of the key: if requests with different nestings
    have the same graph, this is the nesting of the first stored structure."""

    @property
    def labels(self) -> tuple[str, ...]:
        """[nodes] display text of each node."""
        return tuple(node.text for node in self.nodes)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.nodes)

    @property
    def kind(self) -> str:
        """Kind of the flows: SPANS or RECORDS of `schemas.lake`."""
        return RECORDS if all(node.side == POINT for node in self.nodes) else SPANS


class Source(NamedTuple):
    """Stored structure of a request, and which of its nodes belong to the request."""

    key: str
    positions: tuple[int, ...] | None = None
    """Stored positions of a message's work, ascending; None: all nodes."""


@dataclass(frozen=True, slots=True)
class Category:
    """All requests of one refined structure, sorted by (sample, start, id)."""

    graph: Graph
    node_ns: I8
    """[nodes, requests] ns since start, C order: times of one node are contiguous. Clamped and skew-corrected
    by the refinement, so that along every edge dst >= src."""
    response_ns: I8
    """[requests] response time."""
    start_ns: I8
    """[requests] ns since the epoch."""
    weight: F8
    """[requests] inverse sampling probability."""
    sample: U1
    """[requests] index into the population's samples, ascending."""
    status: I4
    """[requests] index into the population's statuses."""
    request_id: pa.StringArray
    """[requests] id of the request."""
    stored: Sequence[str]
    """Keys of the stored structures that were merged into this category."""
    skewed_edges: B1
    """[edges] True if a skew correction or a clamp changed the edge in any request."""
    host: Codes | None = None
    """[nodes, requests] index into the population's hosts, -1 unknown; permuted with `node_ns` if
    interchangeable branches were sorted. Do not write: a broadcast view if all requests have the same hosts.
    None: not loaded (made by hand)."""
    failures: RecordedFailures = NO_FAILURES
    """Every failing node of every request."""
    sources: tuple[Source, ...] = ()
    """Distinct sources of the requests, ascending; empty: all of `stored[0]`, whole."""
    source: I4 | None = None
    """[requests] index into `sources`; None: all 0."""
    origin: I4 | None = None
    """[requests] index into `left_behind`; None: all 0."""
    left_behind: tuple[tuple[LeftBehind, ...], ...] = ()
    """Distinct sets of removed children, each sorted, ascending: one per stored structure, or several if
    interchangeable branches were sorted. Empty: nothing was removed."""
    first_row: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """[samples with requests, and those before them, + 1] first row of each sample."""

    def __post_init__(self) -> None:
        """Find the rows of each sample."""
        last = int(self.sample[-1]) if len(self.sample) else -1
        first = self.sample.searchsorted(np.arange(last + 1).astype(self.sample.dtype))
        object.__setattr__(self, "first_row", (*first.tolist(), len(self.sample)))

    @property
    def n_requests(self) -> int:
        """Number of requests, all samples together."""
        return len(self.sample)

    def rows(self, sample: int) -> slice:
        """Slice of the requests of a sample."""
        if sample + 1 < len(self.first_row):
            return slice(self.first_row[sample], self.first_row[sample + 1])
        return slice(len(self.sample), len(self.sample))


PARAMS_AS_TEXT: Final = pa.schema(
    [
        f.with_type(f.type.value_type if pa.types.is_dictionary(f.type) else f.type).with_nullable(True)
        for f in PARAMS_SCHEMA
    ]
)
"""`schemas.lake.PARAMS_SCHEMA` with plain text for dictionaries: the schema of `ReadParams`."""


_CODES: Final = pa.dictionary(pa.int32(), pa.string())
PARAMS_AS_CODES: Final = pa.schema(
    [("request_id", _CODES), ("kind", _CODES), ("key", _CODES), ("num", pa.float64()), ("text", _CODES)]
)
"""Schema of parameters with dictionary-coded texts."""


class ReadParams(Protocol):
    """Reader of parameters of a sample's requests, on demand."""

    def __call__(
        self,
        sample: int,
        /,
        *,
        keys: Sequence[str] | None = None,
        requests: pa.Array | None = None,
        as_codes: bool = False,
    ) -> pa.Table:
        """Rows of PARAMS_AS_TEXT of one sample's period, in file order.

        keys: only these parameters. requests: only these request ids, text. None: all. as_codes: texts may be
        dictionaries, which takes a third of the time if all are read. The rows may include requests that the
        sample's filter excludes, and requests of the same id and the other kind (`Graph.kind` against the
        column `kind`). Raises LakeError if a file cannot be read.
        """
        ...


def no_params(
    _sample: int,
    /,
    *,
    keys: Sequence[str] | None = None,
    requests: pa.Array | None = None,
    as_codes: bool = False,
) -> pa.Table:
    """Empty parameters, for a population made by hand."""
    del keys, requests
    return (PARAMS_AS_CODES if as_codes else PARAMS_AS_TEXT).empty_table()


class ClockMove(NamedTuple):
    """Two hosts whose clock offset changed."""

    host: str
    other: str
    by_ns: int | None
    """Size of the move, ns; None: the clocks drift, or too few requests show it."""


class FoldedNames(NamedTuple):
    """Folding of too many distinct names into fewer, done before graphs were made."""

    component: str | None
    """Component whose operations were folded; None: names of components were folded."""
    level: int
    """Level of `analyze.refine.name_folding`."""
    left: int
    """Number of names after folding."""
    example: tuple[str, str]
    """A name before and after folding."""


@dataclass(frozen=True, slots=True)
class Population:
    """Categories of all samples, sorted by (root, key), and notes of the refinement."""

    categories: tuple[Category, ...]
    excluded: dict[str, tuple[int, ...]]
    """Quality flag -> number of excluded flows by sample."""
    notes: tuple[str, ...]
    """Sentences for the data-quality section, for example skew between two hosts."""
    samples: tuple[Sample, ...] = PAIR
    statuses: tuple[str, ...] = ()
    """Words of `Category.status`, ascending."""
    hosts: tuple[str, ...] = ()
    """Words of `Category.host`, ascending."""
    errors: tuple[str, ...] = ()
    """Words of `Failures.error`, ascending: error classes."""
    skew_notes: tuple[str, ...] = ()
    """Subset of `notes` about clocks."""
    asynchrony_notes: tuple[str, ...] = ()
    """Subset of `notes` about asynchronous calls."""
    clock_moves: tuple[ClockMove, ...] = ()
    """Clock moves of hosts that the compared samples use: times between these hosts are no evidence."""
    incomplete: tuple[tuple[int, int], ...] = ()
    """[samples] (flows with signs of an undelivered event, all flows); empty: unknown."""
    weight_known: tuple[float, ...] = ()
    """[samples] share of flows with a recorded sampling probability; empty: no flows, or not loaded."""
    window_ns: int = DEFAULT_WINDOW_NS
    """Length of the lake's windows, ns: a request is in window `start_ns // window_ns`."""
    folded: tuple[FoldedNames, ...] = ()
    params: ReadParams = no_params
    """Reader of parameters; nothing is read before a call."""
    stored_operations: Callable[[Sequence[str]], Mapping[str, tuple[str, ...]]] = lambda _: {}
    """Reader of the operations of stored structures: key of `Category.stored` -> `component/point` by stored
    position, the position by which parameters are stored. Keys that no sample has are left out, as are all
    keys of a population made by hand. Raises LakeError if a file cannot be read."""

    def has_requests(self, sample: int) -> bool:
        """True if a sample has a testable request."""
        return any(c.rows(sample).stop > c.rows(sample).start for c in self.categories)

    def columns(self, sample: int, *names: str, asked: bool = False) -> list[npt.NDArray[Any]]:
        """Columns of the requests of a sample (`start_ns`, `response_ns`, `weight`), category after category.

        asked: without requests started by messages, which no caller awaits. O(requests).
        """
        parts = [(c, c.rows(sample)) for c in self.categories if not (asked and is_message(c.graph.root))]
        none = {"weight": np.zeros(0)}
        return [
            np.concatenate([none.get(name, np.zeros(0, np.int64)), *(getattr(c, name)[r] for c, r in parts)])
            for name in names
        ]

    def failed(self, category: Category, rows: slice | I8) -> B1:
        """[rows] True if the root of a category's request did not end `ok`; False for all without
        statuses."""
        status = category.status[rows]
        if not self.statuses:
            return np.zeros(len(status), dtype=np.bool_)
        return np.asarray(status != (self.statuses.index(OK) if OK in self.statuses else -1))

    def root_types(self) -> tuple[tuple[str, ...], I8]:
        """(root types, ascending; [categories] index of each category's root type)."""
        roots = tuple(sorted({category.graph.root for category in self.categories}))
        number = {root: i for i, root in enumerate(roots)}
        return roots, np.array([number[category.graph.root] for category in self.categories], np.int64)

    def of_samples(self, first: int, past: int) -> Population:
        """Samples `first` to `past` (exclusive) as a separate population; same graphs and keys."""

        def params(
            sample: int,
            /,
            *,
            keys: Sequence[str] | None = None,
            requests: pa.Array | None = None,
            as_codes: bool = False,
        ) -> pa.Table:
            return self.params(first + sample, keys=keys, requests=requests, as_codes=as_codes)

        return replace(
            self,
            categories=tuple(
                _rows_of(category, first, past)
                for category in self.categories
                if category.rows(first).start < category.rows(past - 1).stop
            ),
            excluded={flag: counts[first:past] for flag, counts in self.excluded.items()},
            samples=self.samples[first:past],
            weight_known=self.weight_known[first:past],
            incomplete=self.incomplete[first:past],
            params=params,
        )


def _rows_of(category: Category, first: int, past: int) -> Category:
    """Requests of samples `first` to `past`, with sample codes renumbered from 0."""
    rows = slice(category.rows(first).start, category.rows(past - 1).stop)
    host, source, origin = category.host, category.source, category.origin
    return replace(
        category,
        node_ns=np.ascontiguousarray(category.node_ns[:, rows]),
        response_ns=category.response_ns[rows],
        start_ns=category.start_ns[rows],
        weight=category.weight[rows],
        sample=category.sample[rows] - np.uint8(first),
        status=category.status[rows],
        request_id=category.request_id[rows],
        host=None if host is None else _cut(host, rows),
        failures=category.failures.of_rows(rows),
        source=None if source is None else source[rows],
        origin=None if origin is None else origin[rows],
    )


def _cut(host: Codes, rows: slice) -> Codes:
    """Columns of a host matrix; a broadcast view remains one."""
    part = host[:, rows]
    return part if host.strides[1] == 0 else np.ascontiguousarray(part)


def no_testable_request(name: str) -> PeriodError:
    """Error for a comparison in which the sample `name` has no testable request."""
    return PeriodError(
        f"No request of the {name} period can be tested.",
        remedy="Take a longer period; `flowdiff windows` lists what was left out as damaged.",
    )
