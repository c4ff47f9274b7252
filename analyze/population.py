"""The input of analyses: requests by category, each with one graph and a matrix of times [nodes,
requests]."""

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
"""Array of indices into a list of words, in the smallest integer type that fits; -1 for no word."""


_SIDE_MARK: Final = {POINT: "", START: ">", END: "<"}

DEFAULT_WINDOW_NS: Final = 5 * NS_PER_MINUTE
OK: Final = "ok"
"""Status of a request whose root span did not fail."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Group of requests analyzed together: a period of a lake, optionally narrowed by a filter."""

    name: str
    """Name of the sample: `reference`, `problem`, a block of history, a version, …"""
    text: str = ""
    """Period of the sample as text for display, in UTC."""
    start_ns: int = 0
    """Start of the period, ns since the epoch."""
    end_ns: int = 0
    """End of the period, exclusive, ns since the epoch."""
    where: str = ""
    """Filter expression that narrows the sample; empty for none."""
    ranges: tuple[tuple[int, int], ...] = ()
    """Ranges [start, end) that make up the sample, ns since the epoch, ascending, disjoint; empty: the range
    [`start_ns`, `end_ns`)."""
    recorded: tuple[tuple[Recorded, ...], ...] = ()
    """Recordings that overlap each range in `ranges`; empty: unknown."""

    @property
    def length_ns(self) -> int:
        """Total length of the sample's ranges, ns, without the gaps between them."""
        return sum(end - start for start, end in self.ranges) if self.ranges else self.end_ns - self.start_ns


PAIR: Final = (Sample("reference"), Sample("problem"))
"""Samples `reference` and `problem` of a comparison, without times."""


class GraphNode(NamedTuple):
    """Node of a refined graph. A tuple, because a comparison creates tens of thousands."""

    component: str
    point: str
    label: str | None = None
    """Semantic label of the node, for example a route; None for none."""
    host: str = ""
    """Host of the node if the label policy includes hosts; otherwise empty."""
    side: int = POINT
    """START or END for a side of a span, POINT for an event without duration (constants of
    `stitch.graph.placed`)."""

    @property
    def operation(self) -> str:
        """Operation of the node for display, `component/point[/label]`."""
        return f"{self.component}/{self.what}"

    @property
    def where(self) -> str:
        """Component of the node, `[host/]component`."""
        return f"{self.host}/{self.component}" if self.host else self.component

    @property
    def what(self) -> str:
        """Point of the node with its label, `point[/label]`: its operation without the component."""
        return self.point if self.label is None else f"{self.point}/{self.label}"

    @property
    def text(self) -> str:
        """Text of the node for display, `[host/]component/point[/label]` followed by `>` for the start or `<`
        for the end of a span."""
        return f"{self.where}/{self.what}{_SIDE_MARK[self.side]}"


@dataclass(frozen=True, slots=True)
class Nesting:
    """Nesting of spans in a graph: to which span each node belongs, and that span's parent."""

    owner: I4
    """int32[nodes]: node at which the node's span starts; for a point inside a span the node itself."""
    parent: I4
    """int32[nodes]: node at which the parent of the node's span starts; -1 for the root span."""
    kind: U1
    """uint8[nodes]: `EventKind` of the event that the node stands for."""


class LeftBehind(NamedTuple):
    """Child call that the response does not wait for and that the refinement therefore removed from the
    graph."""

    parent: int
    """Node index of the start of the span that made the call."""
    operation: str
    """Operation of the removed child, `component/point[/label]`."""


@dataclass(frozen=True, slots=True)
class RecordedFailures:
    """Failed nodes of a category's requests, sorted by (row, position)."""

    row: I4
    """int32[failures]: index of the request in its category."""
    position: I4
    """int32[failures]: failed node of the graph; for a failed span the node at which it starts. Failures of
    nodes that the refinement removed are dropped."""
    error: I4
    """int32[failures]: index of the error class in `Population.errors`; -1 if unknown."""

    def of_rows(self, rows: slice) -> RecordedFailures:
        """Select the failures of a range of requests; `row` of the result counts from the range's start."""
        start, stop, _ = rows.indices(np.iinfo(np.int32).max)
        first, past = np.searchsorted(self.row, (start, stop))
        return RecordedFailures(
            self.row[first:past] - np.int32(start), self.position[first:past], self.error[first:past]
        )


NO_FAILURES: Final = RecordedFailures(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int32))


class GraphText:
    """Canonical text of a graph, computed at the first access (10 µs per node), as most graphs are never
    shown."""

    def __init__(self, template: Callable[[], Template]) -> None:
        self._template = template

    @cached_property
    def _texts(self) -> tuple[str, str]:
        reading = reading_of(self._template())
        return reading.canonical, reading.canonical_l1

    @property
    def canonical(self) -> str:
        """Canonical text of the graph, for display."""
        return self._texts[0]

    @property
    def tokens(self) -> tuple[str, ...]:
        """Canonical token sequence at level L1, for the edit distance."""
        return split_words(self._texts[1])


@dataclass(frozen=True, slots=True)
class Graph:
    """Refined structure of requests: a labelled directed acyclic graph without times.

    Nodes are numbered in canonical order, which is topological (src < dst along every edge); 0 is the root.
    """

    key: str
    """Hash of the graph, 32 hex digits; equal iff nodes, edges and responses are equal."""
    root: str
    """Root type of the requests, `component/point` of the root node."""
    nodes: tuple[GraphNode, ...]
    edges: I4
    """int32[edges, 2]: node indices (src, dst) of each edge, sorted by (dst, src)."""
    responses: I4
    """int32[n]: nodes at which the response may be sent."""
    text: GraphText = field(compare=False)
    nesting: Nesting | None = None
    """Nesting of spans; None for activity records. Not part of the key: if requests with different nestings
    have the same graph, this is the nesting of the first stored structure."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Display text of each node, in node order."""
        return tuple(node.text for node in self.nodes)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.nodes)

    @property
    def kind(self) -> str:
        """Kind of the flows that the graph was made from: SPANS or RECORDS of `schemas.lake`."""
        return RECORDS if all(node.side == POINT for node in self.nodes) else SPANS


class Source(NamedTuple):
    """Stored structure that a request was read from, and which nodes of the structure the request has."""

    key: str
    positions: tuple[int, ...] | None = None
    """Nodes of the stored structure that belong to the request, ascending, for the request of a message; None
    for other requests, which have all nodes."""


@dataclass(frozen=True, slots=True)
class Category:
    """All requests with one refined structure (graph), sorted by (sample, start, id)."""

    graph: Graph
    node_ns: I8
    """int64[nodes, requests]: time of each node in each request, ns since the request's start; C order, so
    that the times of one node are contiguous. Corrected for clock skew and clipped so that along every edge
    the time does not decrease."""
    response_ns: I8
    """int64[requests]: response times, ns."""
    start_ns: I8
    """int64[requests]: starts of the requests, ns since the epoch."""
    weight: F8
    """float64[requests]: weights of the requests, i.e. inverse sampling probabilities."""
    sample: U1
    """uint8[requests]: index of each request's sample in `Population.samples`, ascending."""
    status: I4
    """int32[requests]: index of each request's status in `Population.statuses`."""
    request_id: pa.StringArray
    """Ids of the requests, [requests]."""
    stored: Sequence[str]
    """Keys of the stored structures that the refinement merged into this category."""
    skewed_edges: B1
    """bool[edges]: True for edges whose times were changed in any request by a skew correction or a clamp."""
    host: Codes | None = None
    """[nodes, requests]: index in `Population.hosts` of each node's host, -1 for unknown; permuted like
    `node_ns` if interchangeable branches were sorted. Do not write to it: it may be a broadcast view. None:
    hosts were not loaded (population made by hand)."""
    failures: RecordedFailures = NO_FAILURES
    """Failed nodes of all requests of the category."""
    sources: tuple[Source, ...] = ()
    """Distinct sources of the category's requests, ascending; empty: all come from `stored[0]`, with all
    nodes."""
    source: I4 | None = None
    """int32[requests]: index in `sources` of each request's source; None: 0 for all requests."""
    origin: I4 | None = None
    """int32[requests]: index in `left_behind` of the children removed from each request; None: 0 for all
    requests."""
    left_behind: tuple[tuple[LeftBehind, ...], ...] = ((),)
    """Distinct sets of deferred children (no response waits for them) that the refinement removed from
    requests; requests of one graph may have different sets. Sets and elements are sorted."""
    first_row: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """Index of the first request of sample 0, 1, … up to the last sample with requests; then the number of
    requests."""

    def __post_init__(self) -> None:
        """Compute `first_row`."""
        last = int(self.sample[-1]) if len(self.sample) else -1
        first = self.sample.searchsorted(np.arange(last + 1).astype(self.sample.dtype))
        object.__setattr__(self, "first_row", (*first.tolist(), len(self.sample)))

    @property
    def n_requests(self) -> int:
        """Number of requests of the category in all samples together."""
        return len(self.sample)

    def rows(self, sample: int) -> slice:
        """Range of the category's requests that belong to sample number `sample`."""
        if sample + 1 < len(self.first_row):
            return slice(self.first_row[sample], self.first_row[sample + 1])
        return slice(len(self.sample), len(self.sample))


PARAMS_AS_TEXT: Final = pa.schema(
    [
        f.with_type(f.type.value_type if pa.types.is_dictionary(f.type) else f.type).with_nullable(True)
        for f in PARAMS_SCHEMA
    ]
)
"""Schema of the tables of `ReadParams`: `schemas.lake.PARAMS_SCHEMA` with plain text instead of
dictionaries."""


_CODES: Final = pa.dictionary(pa.int32(), pa.string())
PARAMS_AS_CODES: Final = pa.schema(
    [("request_id", _CODES), ("kind", _CODES), ("key", _CODES), ("num", pa.float64()), ("text", _CODES)]
)
"""Schema of the tables of `ReadParams` with `as_codes`: texts are dictionaries."""


class ReadParams(Protocol):
    """Function that reads the parameters of a sample's requests on demand."""

    def __call__(
        self,
        sample: int,
        /,
        *,
        keys: Sequence[str] | None = None,
        requests: pa.Array | None = None,
        as_codes: bool = False,
    ) -> pa.Table:
        """Read the parameters in one sample's period: a table with the columns of PARAMS_AS_TEXT, in file
        order.

        sample: index of the sample. keys: names of parameters to read, None: all. requests: ids (text) of
        requests to read, None: all. as_codes: return the columns of PARAMS_AS_CODES, which takes a third of
        the time if everything is read. The table may include requests that the sample's filter excludes, and
        requests of the other kind with the same id (compare `Graph.kind` with the column `kind`). Raises
        LakeError if a file cannot be read.
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
    """Table of parameters without rows, for a population made by hand."""
    del keys, requests
    return (PARAMS_AS_CODES if as_codes else PARAMS_AS_TEXT).empty_table()


class ClockMove(NamedTuple):
    """Change of the clock offset between two hosts during the samples."""

    host: str
    other: str
    by_ns: int | None
    """Change of the clock offset of `other` against `host`, ns; None: unknown, as the clocks drift or too few
    calls show it."""


class FoldedNames(NamedTuple):
    """Folding that was applied to too many distinct names: ids in the names are replaced by `#`."""

    component: str | None
    """Component whose operation names were folded; None: the names of components were folded."""
    level: int
    """Level of folding: number of kinds of ids that are replaced, see `analyze.refine.name_folding`."""
    left: int
    """Number of distinct names after the folding."""
    example: tuple[str, str]
    """Example of a folded name: (before, after)."""


@dataclass(frozen=True, slots=True)
class Population:
    """Categories of all samples, sorted by (root, key), with notes of the refinement."""

    categories: tuple[Category, ...]
    excluded: dict[str, tuple[int, ...]]
    """Quality flag -> number of excluded flows, one per sample."""
    notes: tuple[str, ...]
    """Sentences for the data-quality section, for example skew between two hosts."""
    samples: tuple[Sample, ...] = PAIR
    statuses: tuple[str, ...] = ()
    """Statuses of requests, ascending; `Category.status` holds indices into them."""
    hosts: tuple[str, ...] = ()
    """Host names, ascending; `Category.host` holds indices into them."""
    errors: tuple[str, ...] = ()
    """Error classes, ascending; `RecordedFailures.error` holds indices into them."""
    skew_notes: tuple[str, ...] = ()
    """The sentences of `notes` that concern clock skew."""
    asynchrony_notes: tuple[str, ...] = ()
    """The sentences of `notes` that concern asynchronous calls."""
    clock_moves: tuple[ClockMove, ...] = ()
    """Pairs of hosts whose clock offset changed during the compared samples, so that latencies between them
    must not be compared."""
    incomplete: tuple[tuple[int, int], ...] = ()
    """(Number of flows in which an event seems to be missing, number of all flows) per sample; empty:
    unknown."""
    weight_known: tuple[float, ...] = ()
    """For each sample the share of flows with a recorded sampling probability, in [0, 1]; empty: no flows, or
    not loaded."""
    window_ns: int = DEFAULT_WINDOW_NS
    """Length of the lake's windows, ns: a request lies in window number `start_ns // window_ns`."""
    folded: tuple[FoldedNames, ...] = ()
    params: ReadParams = no_params
    """Function that reads parameters of a sample's requests; nothing is read before a call."""
    stored_operations: Callable[[Sequence[str]], Mapping[str, tuple[str, ...]]] = lambda _: {}
    """Function from keys of stored structures (`Category.stored`) to a mapping key -> `component/point` of
    each stored node, in the order in which parameters are stored.

    Keys that no sample has are left out, as are all keys of a population made by hand. Raises LakeError if a
    file cannot be read.
    """

    def has_requests(self, sample: int) -> bool:
        """True if sample number `sample` has at least one request that tests may use."""
        return any(c.rows(sample).stop > c.rows(sample).start for c in self.categories)

    def columns(self, sample: int, *names: str, asked: bool = False) -> list[npt.NDArray[Any]]:
        """Columns of the requests of sample number `sample`, each concatenated over categories. O(requests).

        names: attributes of `Category`, for example `start_ns`, `response_ns`, `weight`. asked: True to leave
        out the requests of messages, for which no caller waits.
        """
        parts = [(c, c.rows(sample)) for c in self.categories if not (asked and is_message(c.graph.root))]
        none = {"weight": np.zeros(0)}
        return [
            np.concatenate([none.get(name, np.zeros(0, np.int64)), *(getattr(c, name)[r] for c, r in parts)])
            for name in names
        ]

    def failed(self, category: Category, rows: slice | I8) -> B1:
        """bool[rows]: True where the root of a request of `category` ended with another status than `ok`; all
        False if the population has no statuses."""
        status = category.status[rows]
        if not self.statuses:
            return np.zeros(len(status), dtype=np.bool_)
        return np.asarray(status != (self.statuses.index(OK) if OK in self.statuses else -1))

    def root_types(self) -> tuple[tuple[str, ...], I8]:
        """Root types, ascending, and the index of each category's root type, int64[categories]."""
        roots = tuple(sorted({category.graph.root for category in self.categories}))
        number = {root: i for i, root in enumerate(roots)}
        return roots, np.array([number[category.graph.root] for category in self.categories], np.int64)

    def of_samples(self, first: int, past: int) -> Population:
        """Population with only the samples `first` to `past` - 1; samples are renumbered from 0. Graphs and
        keys do not change."""

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
    """Category with only the requests of samples `first` to `past` - 1; samples are renumbered from 0."""
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
    """Select columns of a host matrix; a broadcast view remains one."""
    part = host[:, rows]
    return part if host.strides[1] == 0 else np.ascontiguousarray(part)


def no_testable_request(name: str) -> PeriodError:
    """Error to raise if the sample called `name` has no request that tests may use."""
    return PeriodError(
        f"No request of the {name} period can be tested.",
        remedy="Take a longer period; `flowdiff windows` lists what was left out as damaged.",
    )
