"""Read stored flows as matrices: one `StoredCategory` for each structure that occurs in the samples.

The input is the lake's tables (`schemas.lake`); flows have an extra column, `sample`. No Python code runs per
request: rows are grouped by one sort, and a category's matrices are slices of the flattened list columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numpy.lib.stride_tricks import as_strided

from analyze.cache_blocks import CACHE_CELLS, uneven_blocks
from analyze.numbering import coded
from analyze.population import NO_FAILURES, Codes, RecordedFailures
from analyze.stats.sums import numbered
from schemas.arrays import F8, I4, I8, U1
from schemas.errors import LakeError
from stitch.columnar.runs import inverse, list_lengths, offsets, run_starts, whole
from stitch.graph.placed import START
from stitch.graph.template import Template
from stitch.readings import templates_of

_REQUEST_COLUMNS = ["request_id", "start_ns", "weight", "status", "error_position", "error_class", "sample"]
_FEW_ROWS: Final = 8
"""Mean number of consecutive rows of a category from which they are copied as matrices."""

Columns = npt.NDArray[np.integer[Any]]
"""Numbers of stored nodes."""


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
    """int64[nodes, requests]: time of each node, ns since the request's start; C order. Skew is corrected
    by `shift`."""
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
    """Node numbers in the stored structure of the work of a message that is split off as a separate request.
    None: `structure` is the stored structure itself."""
    shift: I8 | None = None
    """int64[nodes, requests]: ns that the skew correction added to `node_ns`; None: none."""
    left_out: tuple[str, ...] = ()
    """Operations, `component/point[/label]`, of deferred children that the refined graph leaves out."""
    left_column: I8 | None = None
    """int64[left_out, requests]: node at which the span starts that called the child. A view: do not write to
    it. None: no child is left out."""

    @property
    def n_requests(self) -> int:
        """Number of requests (flows) in the category."""
        return len(self.start_ns)

    @property
    def has_spans(self) -> bool:
        """True if the nodes are starts and ends of spans, False if they are activity records."""
        return self.structure.side[0] == START

    def of_rows(self, chosen: I8) -> StoredCategory:
        """Copy with only the requests in the rows `chosen`, int64[chosen], ascending."""
        failures = self.failures
        at = np.minimum(np.searchsorted(chosen, failures.row), len(chosen) - 1)
        kept = chosen[at] == failures.row
        return replace(
            self,
            node_ns=self.node_ns[:, chosen],
            host=self.host[:, chosen],
            start_ns=self.start_ns[chosen],
            weight=self.weight[chosen],
            sample=self.sample[chosen],
            status=self.status[chosen],
            request_id=self.request_id.take(pa.array(chosen)),
            failures=RecordedFailures(
                at[kept].astype(np.int32), failures.position[kept], failures.error[kept]
            ),
            shift=None if self.shift is None else self.shift[:, chosen],
            left_column=None if self.left_column is None else self.left_column[:, chosen],
        )

    def moved(self, came: Columns) -> StoredCategory:
        """Copy in which interchangeable branches (equal subtrees of one parent) swap their times, hosts,
        failures and left-out children.

        came: [nodes, requests] node from which the content of each cell comes; a permutation per request.
        """
        went = np.empty(came.shape, dtype=np.int64)
        np.put_along_axis(went, came, np.arange(len(came))[:, None], axis=0)
        failures = self.failures
        position = went[failures.position, failures.row].astype(np.int32)
        return replace(
            self,
            node_ns=np.take_along_axis(self.node_ns, came, axis=0),
            host=np.take_along_axis(self.host, came, axis=0),
            failures=RecordedFailures(failures.row, position, failures.error),
            shift=None if self.shift is None else np.take_along_axis(self.shift, came, axis=0),
            left_column=None if self.left_column is None else went[self.left_column[:, 0]],
        )


def own_columns(n_columns: int, n_rows: int) -> Columns:
    """Unsigned integers [n_columns, n_rows]: each cell holds the number of its column. Sorted in the way that
    times are sorted, they are the argument of `StoredCategory.moved`."""
    numbers: Columns = np.arange(n_columns).astype(np.min_scalar_type(n_columns))
    return np.repeat(numbers[:, None], n_rows, axis=1)


def equal_rows(columns: npt.NDArray[np.signedinteger]) -> tuple[I8, I8]:
    """Group equal rows of `columns`, an array [columns, rows] of numbers >= 0.

    Returns (int64[groups] first row of each group, int64[rows] group of each row). Groups are numbered in
    lexicographic order of their contents, so the numbering does not depend on the order of rows.
    """
    differing = columns[(columns != columns[:, :1]).any(axis=1)]
    if not len(differing):
        n_rows = columns.shape[1]
        return np.zeros(min(n_rows, 1), dtype=np.int64), np.zeros(n_rows, dtype=np.int64)
    group, first = numbered(differing)
    return first, group


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
    codes, words = coded(flows["category"])
    keys, known = words.to_pylist(), read_structures(structures)
    n_of = np.bincount(codes, minlength=len(keys))
    used = np.flatnonzero(n_of).tolist()
    if missing := [keys[code] for code in used if keys[code] not in known]:
        raise LakeError(
            f"Category {missing[0]} has no structure in its windows.", remedy="Run flowdiff fsck."
        )
    n_nodes = np.zeros(len(keys), dtype=np.int64)
    n_nodes[used] = [known[keys[code]].n_nodes for code in used]
    n_times, n_hosts = (
        np.concatenate([list_lengths(chunk) for chunk in flows[name].chunks])
        for name in ("offset_ns", "host")
    )
    if not np.array_equal(n_times, n_hosts):
        raise LakeError("Flows with unlike numbers of node times and hosts.", remedy="Run flowdiff fsck.")
    if (wrong := codes[n_times != n_nodes[codes]]).size:
        raise LakeError(
            f"A flow of category {keys[wrong[0]]} has other than {n_nodes[wrong[0]]} nodes.",
            remedy="Run flowdiff fsck.",
        )
    order = row_order(
        codes.astype(np.int64) * n_samples + flows["sample"].to_numpy(),
        flows["start_ns"].to_numpy(),
        flows["request_id"],
    )
    first, first_cell = offsets(n_of), offsets(n_of * n_nodes)
    column = inverse(order) - first[codes]
    times, hosts, host_words = _cells(flows, first_cell[codes] + column, n_of[codes], n_nodes[codes])
    rows = flows.select(_REQUEST_COLUMNS)
    if not np.array_equal(order, np.arange(len(order))):
        rows = rows.take(pa.array(order))
    failures, errors = _failures(rows)
    statuses, status_words = coded(rows["status"])
    start_ns, weight, sample = (rows[name].to_numpy() for name in ("start_ns", "weight", "sample"))
    request_id = whole(rows["request_id"])
    categories = []
    for code in used:
        mine, cells = slice(*first[code : code + 2].tolist()), slice(*first_cell[code : code + 2].tolist())
        shape = int(n_nodes[code]), int(n_of[code])
        categories.append(
            StoredCategory(
                key=keys[code],
                structure=known[keys[code]],
                node_ns=times[cells].reshape(shape),
                host=hosts[cells].reshape(shape),
                start_ns=start_ns[mine],
                weight=weight[mine],
                sample=sample[mine],
                status=statuses[mine],
                request_id=request_id.slice(mine.start, shape[1]),
                failures=_checked(failures.of_rows(mine), keys[code], shape[0]),
            )
        )
    return FlowMatrices(
        tuple(categories),
        tuple(host_words.to_pylist()),
        tuple(status_words.to_pylist()),
        tuple(errors.to_pylist()),
        n_samples,
    )


def _cells(flows: pa.Table, first: I8, step: I8, n_nodes: I8) -> tuple[I8, Codes, pa.StringArray]:
    """([cells] times, [cells] host codes, hosts) of all matrices, one after another.

    first, step: [rows] cell of the flow's first node, and distance of its nodes' cells; n_nodes: [rows].
    Lists go to their cells a block of rows at a time: copies of whole columns would take new memory, which
    costs more than to compute in it.
    """
    times = np.empty(int(n_nodes.sum()), dtype=np.int64)
    batches = flows.select(["offset_ns", "host"]).to_batches()
    coded_hosts = [
        of if pa.types.is_dictionary(of.type) else of.dictionary_encode()
        for of in (batch["host"].flatten() for batch in batches)
    ]
    words = pc.unique(pa.concat_arrays([of.dictionary for of in coded_hosts]))
    words = words.take(pc.array_sort_indices(words))
    # The smallest type that holds them, -1 and the number of words.
    hosts: Codes = np.empty(len(times), dtype=np.min_scalar_type(-len(words) - 1))
    at = 0
    for batch, of in zip(batches, coded_hosts, strict=True):
        rows, at = slice(at, at + batch.num_rows), at + batch.num_rows
        size, begin = n_nodes[rows], offsets(n_nodes[rows])
        code = pc.index_in(of.dictionary, value_set=words).to_numpy().astype(hosts.dtype)
        code = np.append(code, hosts.dtype.type(-1))
        index = of.indices.fill_null(len(code) - 1).to_numpy()
        ns = batch["offset_ns"].flatten().to_numpy()
        # A file has the requests of a category one after another: they are a matrix, but for its axes.
        run = np.flatnonzero(run_starts(first[rows] - np.arange(len(size)), step[rows], size))
        if len(run) * _FEW_ROWS <= len(size):
            for row, past in pairwise([*run.tolist(), len(size)]):
                here, n = slice(begin[row], begin[past]), int(size[row])
                cell, apart = int(first[rows.start + row]), int(step[rows.start + row])
                for cells, values in ((times, ns[here]), (hosts, code[index[here]])):
                    matrix = as_strided(
                        cells[cell:], (n, past - row), (apart * cells.itemsize, cells.itemsize)
                    )
                    matrix[:] = values.reshape(past - row, n).T
            continue
        for block in uneven_blocks(size, CACHE_CELLS):
            here = slice(begin[block.start], begin[block.stop])
            mine = slice(rows.start + block.start, rows.start + block.stop)
            node = np.arange(here.start, here.stop) - np.repeat(begin[:-1][block], size[block])
            cell = np.repeat(first[mine], size[block]) + np.repeat(step[mine], size[block]) * node
            times[cell], hosts[cell] = ns[here], code[index[here]]
    return times, hosts, words


def _failures(flows: pa.Table) -> tuple[RecordedFailures, pa.StringArray]:
    """(row, stored node and error code of each failed node; error class of each code).

    Raises LakeError if `error_position` and `error_class` of a flow differ in length."""
    positions, classes = whole(flows["error_position"]), whole(flows["error_class"])
    n_failing = list_lengths(positions)
    if not np.array_equal(n_failing, list_lengths(classes)):
        raise LakeError(
            "Flows with unlike numbers of failing nodes and classes.", remedy="Run flowdiff fsck."
        )
    codes, words = coded(pa.chunked_array([classes.flatten()]))
    row = np.repeat(np.arange(flows.num_rows, dtype=np.int32), n_failing)
    return RecordedFailures(row, positions.flatten().to_numpy(), codes), words


def _checked(failures: RecordedFailures, key: str, n_nodes: int) -> RecordedFailures:
    if len(failures.position) and not 0 <= failures.position.min() <= failures.position.max() < n_nodes:
        raise LakeError(
            f"A flow of category {key} fails at a node it does not have.", remedy="Run flowdiff fsck."
        )
    return failures


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
