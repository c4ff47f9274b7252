"""Read stored flows as matrices: one `StoredCategory` for each structure that occurs in the samples.

The input is the lake's tables (`schemas.lake`); flows have an extra column, `sample`. No Python code runs per
request: rows are grouped by one sort, and a category's matrices are slices of the flattened list columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from analyze.cache_blocks import blocks
from analyze.numbering import coded
from analyze.population import NO_FAILURES, Codes, RecordedFailures
from schemas.arrays import F8, I4, I8, U1
from schemas.errors import LakeError
from stitch.columnar.runs import whole
from stitch.graph.placed import END, START
from stitch.graph.template import Template
from stitch.readings import templates_of

_COLUMNS = [
    "request_id",
    "start_ns",
    "category",
    "offset_ns",
    "host",
    "weight",
    "status",
    "error_position",
    "error_class",
    "sample",
]


class Operation(NamedTuple):
    """Name of a span or activity record, without its host and without start or end."""

    component: str
    point: str
    label: str | None = None

    @property
    def text(self) -> str:
        """`component/point[/label]`, for display."""
        return "/".join(part for part in self if part is not None)

    @classmethod
    def of(cls, structure: Template, position: int) -> Operation:
        """Operation of the node at `position` in the columns of `structure`."""
        return cls(structure.component[position], structure.point[position], structure.label[position])


@dataclass(frozen=True, slots=True)
class StoredCategory:
    """All flows of one stored structure, sorted by (sample, start, request id)."""

    key: str
    """Key of the structure in the lake: the flows' `category`."""
    structure: Template
    node_ns: I8
    """int64[nodes, requests]: time of each node, ns since the request's start; C order."""
    host: Codes
    """[nodes, requests]: index into `FlowMatrices.hosts`; -1: unknown host. A view: do not write to it."""
    start_ns: I8
    weight: F8
    sample: U1
    status: I4
    """int32[requests]: index into `FlowMatrices.statuses`."""
    request_id: pa.StringArray
    failures: RecordedFailures = NO_FAILURES
    """Failed nodes by request. Positions are node numbers in `structure`; error codes index
    `FlowMatrices.errors`."""
    positions: tuple[int, ...] | None = None
    """For the work of a message, split off as a separate request: the node numbers that the work has in the
    stored structure. None: `structure` is the stored structure itself."""

    @property
    def n_requests(self) -> int:
        """Number of requests (flows) in the category."""
        return len(self.start_ns)

    @property
    def has_spans(self) -> bool:
        """True if the nodes are starts and ends of spans, False if they are activity records."""
        return any(side in (START, END) for side in self.structure.side)


@dataclass(frozen=True, slots=True)
class FlowMatrices:
    """The flows of all samples, grouped by stored category (ascending key)."""

    categories: tuple[StoredCategory, ...]
    hosts: tuple[str, ...]
    """Host names; `StoredCategory.host` holds indices into them."""
    statuses: tuple[str, ...]
    errors: tuple[str, ...]
    """Error classes of failed nodes; the error codes of `StoredCategory.failures` are indices into them."""
    n_samples: int


def group_flows(flows: pa.Table, structures: pa.Table, n_samples: int) -> FlowMatrices:
    """Sort and group `flows` (FLOWS_SCHEMA plus a uint8 column `sample`) into one matrix per category.

    The result does not depend on the order of rows. Raises LakeError if a category has no structure, if a
    flow's number of nodes differs from its structure's, or if its lists of nodes differ in length. O(rows log
    rows + nodes).
    """
    if flows.num_rows == 0:
        return FlowMatrices((), (), (), (), n_samples)
    flows = flows.select(_COLUMNS).combine_chunks()
    codes, words = coded(flows["category"])
    keys = words.to_pylist()
    order = row_order(
        codes.astype(np.int64) * n_samples + flows["sample"].to_numpy(),
        flows["start_ns"].to_numpy(),
        flows["request_id"],
    )
    if not np.array_equal(order, np.arange(len(order))):
        flows = flows.take(pa.array(order)).combine_chunks()
        codes = codes[order]
    known = read_structures(structures)
    host_list = whole(flows["host"])
    host_codes, hosts = coded(pa.chunked_array([host_list.flatten()]))
    failures, errors = _failures(flows)
    statuses, status_words = coded(flows["status"])
    offsets = whole(flows["offset_ns"])
    bounds = offsets.offsets.to_numpy().astype(np.int64)
    if not np.array_equal(bounds - bounds[0], _bounds_of(host_list)):
        raise LakeError("Flows with unlike numbers of node times and hosts.", remedy="Run flowdiff fsck.")
    columns = _Columns(
        values=offsets.flatten().to_numpy(),
        # The smallest type that holds them, -1 and the number of words.
        hosts=host_codes.astype(np.min_scalar_type(-len(hosts) - 1)),
        bounds=bounds - bounds[0],
        start_ns=flows["start_ns"].to_numpy(),
        weight=flows["weight"].to_numpy(),
        sample=flows["sample"].to_numpy(),
        status=statuses,
        request_id=whole(flows["request_id"]),
        failures=failures,
    )
    return FlowMatrices(
        tuple(_slices(codes, keys, known, columns)),
        tuple(hosts.to_pylist()),
        tuple(status_words.to_pylist()),
        tuple(errors.to_pylist()),
        n_samples,
    )


def _failures(flows: pa.Table) -> tuple[RecordedFailures, pa.StringArray]:
    """(row, stored node and error code of each failed node; error class of each code).

    Raises LakeError if `error_position` and `error_class` of a flow differ in length."""
    positions, classes = whole(flows["error_position"]), whole(flows["error_class"])
    bounds = _bounds_of(positions)
    if not np.array_equal(bounds, _bounds_of(classes)):
        raise LakeError(
            "Flows with unlike numbers of failing nodes and classes.", remedy="Run flowdiff fsck."
        )
    codes, words = coded(pa.chunked_array([classes.flatten()]))
    row = np.repeat(np.arange(flows.num_rows, dtype=np.int32), np.diff(bounds))
    return RecordedFailures(row, positions.flatten().to_numpy(), codes), words


@dataclass(frozen=True, slots=True)
class _Columns:
    """Columns of the sorted flows; list columns (node times, hosts) are flattened, with offsets `bounds`."""

    values: I8
    hosts: Codes
    bounds: I8
    start_ns: I8
    weight: F8
    sample: U1
    status: I4
    request_id: pa.StringArray
    failures: RecordedFailures


def _slices(
    codes: I4, keys: list[str], known: dict[str, Template], columns: _Columns
) -> Iterator[StoredCategory]:
    edges = np.flatnonzero(np.diff(codes)) + 1
    for start, end in zip([0, *edges.tolist()], [*edges.tolist(), len(codes)], strict=True):
        key = keys[codes[start]]
        if key not in known:
            raise LakeError(f"Category {key} has no structure in its windows.", remedy="Run flowdiff fsck.")
        n_nodes = known[key].n_nodes
        if np.any(np.diff(columns.bounds[start : end + 1]) != n_nodes):
            raise LakeError(
                f"A flow of category {key} has other than {n_nodes} nodes.", remedy="Run flowdiff fsck."
            )
        cells = slice(columns.bounds[start], columns.bounds[end])
        yield StoredCategory(
            key=key,
            structure=known[key],
            node_ns=_turned(columns.values[cells].reshape(end - start, n_nodes)),
            host=columns.hosts[cells].reshape(end - start, n_nodes).T,
            start_ns=columns.start_ns[start:end],
            weight=columns.weight[start:end],
            sample=columns.sample[start:end],
            status=columns.status[start:end],
            request_id=columns.request_id.slice(start, end - start),
            failures=_checked(columns.failures.of_rows(slice(start, end)), key, n_nodes),
        )


def _checked(failures: RecordedFailures, key: str, n_nodes: int) -> RecordedFailures:
    if len(failures.position) and not 0 <= failures.position.min() <= failures.position.max() < n_nodes:
        raise LakeError(
            f"A flow of category {key} fails at a node it does not have.", remedy="Run flowdiff fsck."
        )
    return failures


def _turned(rows: I8) -> I8:
    """Transpose [rows, columns] to [columns, rows] in C order, block by block to stay within the CPU
    cache."""
    turned = np.empty(rows.shape[::-1], dtype=np.int64)
    for block in blocks(*rows.shape):
        turned[:, block] = rows[block].T
    return turned


def _bounds_of(lists: pa.ListArray) -> I8:
    bounds: I8 = lists.offsets.to_numpy().astype(np.int64)
    bounds -= bounds[0]
    return bounds


def row_order(group: I8, start_ns: I8, request_id: pa.ChunkedArray | pa.StringArray) -> I8:
    """int64[rows]: permutation that sorts rows by (group, start, request id), stable. Ids are compared only
    to break ties."""
    order: I8 = np.lexsort((start_ns, group))
    tied = (np.diff(group[order]) == 0) & (np.diff(start_ns[order]) == 0)
    if not tied.any():
        return order
    run = np.cumsum(np.concatenate(([True], ~tied)))
    members = np.flatnonzero(np.concatenate((tied, [False])) | np.concatenate(([False], tied)))
    ids = request_id.take(pa.array(order[members])).to_pylist()
    ranks = np.empty(len(ids), dtype=np.int64)
    ranks[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids))
    order[members] = order[members][np.lexsort((ranks, run[members]))]
    return order


def read_structures(structures: pa.Table) -> dict[str, Template]:
    """Mapping category -> structure; for a repeated category its first row is used. O(nodes)."""
    if structures.num_rows == 0:
        return {}
    keys = structures["category"].to_pylist()
    rows = dict(zip(reversed(keys), reversed(range(len(keys))), strict=True))
    wanted = structures.take(pa.array([*rows.values()])).combine_chunks()
    return dict(zip(rows, templates_of(wanted), strict=True))
