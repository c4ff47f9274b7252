"""Flows that wait until their window is sealed, and the account of the events they were made of.

An event counts as open until the flow it went into is published. So what a commit says is open is what
whoever takes the lane over finds in its segments and not in its flows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import I8, U8
from schemas.rejects import Reason, Reject
from schemas.windows import Window
from stitch.columnar.runs import inverse, offsets, ranges, whole
from stitch.drivers.live.closed_memory import window_ends
from stitch.drivers.live.open_events import ClosedEvents
from stitch.drivers.partition import hash_requests, share_of
from stitch.flow_rows import lake_order, named_params
from stitch.kernel import ClosedFlows, reject_rows
from stitch.lake.encoding import VALUES_PER_GROUP
from stitch.lake.windowing import WindowPart


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Rows that one pass made for one window."""

    window: Window
    flows: pa.Table
    params: pa.Table
    """FLOW_PARAMS_SCHEMA."""
    keys: U8
    """Requests, distinct."""
    words: U8
    """Words that tie its records without a request id; see `request_keys.record_words`."""
    n_events: int
    """Events of its requests, whatever became of them."""
    n_copies: int
    conflicts: pa.Table
    """Events refused because another version of their id was kept."""
    segments: tuple[int, int]
    """Numbers of the first and the last segment with an event of them."""
    n_bytes: int

    def rejects(self, most: int) -> list[Reject]:
        """Dead letters of the conflicts, so many at most."""
        rows = np.arange(min(most, self.conflicts.num_rows))
        return reject_rows(self.conflicts, rows, Reason.CONFLICT)


@dataclass(slots=True)
class _Waiting:
    """One window."""

    pieces: list[Piece] = field(default_factory=list)
    structures: list[pa.Table] = field(default_factory=list)
    categories: set[str] = field(default_factory=set)


class PendingWindows:
    """Closed flows of one lane by window."""

    def __init__(
        self, window_length_ns: int, params_share: float, part_nodes: int = VALUES_PER_GROUP
    ) -> None:
        """`part_nodes`: of a part, unless one piece has more."""
        self._length_ns = window_length_ns
        self._part_nodes = part_nodes
        self._params_share = params_share
        self._windows: defaultdict[int, _Waiting] = defaultdict(_Waiting)
        """By end."""
        self.n_pieces = 0
        self.n_flows = 0
        self.n_events = 0
        self.bytes = 0

    def add(self, closed: ClosedEvents, made: ClosedFlows, words: tuple[I8, U8]) -> None:
        """Add what a pass made. `words` are `(event, word)` of records that named no request."""
        if not made.flows.num_rows:
            return
        ends, code = np.unique(
            window_ends(made.flows["start_ns"].to_numpy(), self._length_ns), return_inverse=True
        )
        of_event = np.append(code, -1)[made.flow]  # flow -1 has code -1
        n = len(ends)
        counts = np.bincount(of_event[of_event >= 0], minlength=n)
        copies = np.bincount(of_event[made.copies], minlength=n)
        params = made.params
        if self._params_share < 1:
            kept = share_of(hash_requests(made.flows), self._params_share)
            params = params.filter(pa.array(kept[params["flow"].to_numpy()]))
        for number, (end, flows, own_params) in enumerate(
            zip(ends.tolist(), *_dealt(made.flows, params, code, n), strict=True)
        ):
            own = of_event == number
            refused = made.conflicts[own[made.conflicts]]
            segments = closed.segment[own]
            piece = Piece(
                window=Window(end - self._length_ns, self._length_ns),
                flows=flows,
                params=own_params,
                keys=np.unique(closed.key[own]),
                words=np.unique(words[1][own[words[0]]]),
                n_events=int(counts[number]),
                n_copies=int(copies[number]),
                conflicts=made.events.take(pa.array(refused)).combine_chunks(),
                segments=(int(segments.min()), int(segments.max())),
                n_bytes=int(flows.nbytes + own_params.nbytes),
            )
            self._keep(end, piece, made.structures)

    def _keep(self, end: int, piece: Piece, structures: pa.Table) -> None:
        waiting = self._windows[end]
        waiting.pieces.append(piece)
        categories: list[str] = structures["category"].to_pylist()
        used = set(whole(piece.flows["category"]).dictionary.to_pylist()) - waiting.categories
        fresh = [i for i, category in enumerate(categories) if category in used]
        if fresh:
            waiting.categories.update(categories[i] for i in fresh)
            added = structures.take(pa.array(fresh, pa.int64()))
            waiting.structures.append(added)
            self.bytes += added.nbytes
        self.n_pieces += 1
        self.n_flows += piece.flows.num_rows
        self.n_events += piece.n_events
        self.bytes += piece.n_bytes + 8 * len(piece.keys)

    def until(self, end_ns: int | None) -> list[Piece]:
        """Pieces of windows that end there or before, in order of time; None: all."""
        ends = sorted(end for end in self._windows if end_ns is None or end <= end_ns)
        return [piece for end in ends for piece in self._windows[end].pieces]

    def first_end_ns(self) -> int | None:
        """End of the earliest window with a flow."""
        return min(self._windows, default=None)

    def last_end_ns(self) -> int | None:
        """End of the latest window with a flow."""
        return max(self._windows, default=None)

    def first_segment(self, without: Iterable[Piece]) -> int | None:
        """Number of the first segment with an event of some other piece."""
        gone = set(map(id, without))
        pieces = (piece for waiting in self._windows.values() for piece in waiting.pieces)
        return min((piece.segments[0] for piece in pieces if id(piece) not in gone), default=None)

    def parts(self, pieces: Sequence[Piece]) -> Callable[[], Iterator[WindowPart]]:
        """Gives pieces of this, in order of time, put together as the lake wants them.

        One part a window, several of a large one; each stands alone, and is made when it is asked for.
        """
        ends = {piece.window.end_ns for piece in pieces}
        return partial(self._parts, pieces, {end: tuple(self._windows[end].structures) for end in ends})

    def _parts(
        self, pieces: Sequence[Piece], structures: Mapping[int, Sequence[pa.Table]]
    ) -> Iterator[WindowPart]:
        held: list[Piece] = []
        nodes = 0
        for piece in pieces:
            own = int(pc.sum(piece.flows["n_nodes"]).as_py())
            if held and (held[0].window != piece.window or nodes + own > self._part_nodes):
                yield _part(held, structures[held[0].window.end_ns])
                held, nodes = [], 0
            held.append(piece)
            nodes += own
        if held:
            yield _part(held, structures[held[0].window.end_ns])

    def remove(self, pieces: Iterable[Piece]) -> None:
        """Forget pieces: they are published."""
        by_end: defaultdict[int, set[int]] = defaultdict(set)
        for piece in pieces:
            by_end[piece.window.end_ns].add(id(piece))
            self.n_pieces -= 1
            self.n_flows -= piece.flows.num_rows
            self.n_events -= piece.n_events
            self.bytes -= piece.n_bytes + 8 * len(piece.keys)
        for end, gone in by_end.items():
            waiting = self._windows[end]
            waiting.pieces = [piece for piece in waiting.pieces if id(piece) not in gone]
            if not waiting.pieces:
                self.bytes -= sum(table.nbytes for table in waiting.structures)
                del self._windows[end]


def _part(pieces: list[Piece], known: Sequence[pa.Table]) -> WindowPart:
    """Pieces of one window, whose structures are among those that are known."""
    flows = _whole([piece.flows for piece in pieces])
    used = pc.unique(flows["category"].cast(pa.string()))
    structures = pa.concat_tables(
        table.filter(pc.is_in(table["category"], value_set=used)) for table in known
    ).sort_by([("root", "ascending"), ("category", "ascending")])
    params = _joined_params(pieces)
    if len(pieces) > 1:
        words = whole(flows["category"])
        structure = pc.index_in(words.dictionary, value_set=structures["category"]).fill_null(-1).to_numpy()
        order = lake_order(
            structure[words.indices.to_numpy()],
            flows["start_ns"].to_numpy(),
            lambda some: flows["request_id"].take(pa.array(some)),
        )
        flows = flows.take(pa.array(order)).combine_chunks()
        params = _reordered(params, order)
    return WindowPart(pieces[0].window, flows, structures, named_params(params, flows).combine_chunks())


def _whole(tables: list[pa.Table]) -> pa.Table:
    """Combine the chunks of each column into one."""
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def _dealt(flows: pa.Table, params: pa.Table, code: I8, n: int) -> tuple[list[pa.Table], list[pa.Table]]:
    """Flows and their parameters (FLOW_PARAMS_SCHEMA) by `code` [flows], order kept."""
    if n == 1:
        return [flows], [params]
    by_code = np.argsort(code, kind="stable")
    bounds = offsets(np.bincount(code, minlength=n))
    place = inverse(by_code) - bounds[code]  # in its own part
    of_param = params["flow"].to_numpy()
    dealt = flows.take(pa.array(by_code)).unify_dictionaries()
    parts = [dealt.slice(int(first), int(end - first)) for first, end in pairwise(bounds)]
    own = []
    for number in range(n):
        rows = np.flatnonzero(code[of_param] == number)
        taken = params.take(pa.array(rows))
        own.append(taken.set_column(0, taken.schema.field(0), pa.array(place[of_param[rows]], pa.int32())))
    return [_own_categories(part) for part in parts], own


def _own_categories(flows: pa.Table) -> pa.Table:
    """Flows whose dictionary of categories holds those that occur."""
    at = flows.schema.get_field_index("category")
    words = flows.column(at).cast(pa.string()).dictionary_encode().cast(flows.schema.field(at).type)
    return flows.set_column(at, flows.schema.field(at), words)


def _joined_params(pieces: list[Piece]) -> pa.Table:
    """FLOW_PARAMS_SCHEMA, for the flows of all pieces one after another."""
    if len(pieces) == 1:
        return pieces[0].params
    first = offsets(np.array([piece.flows.num_rows for piece in pieces], dtype=np.int64))
    joined = _whole([piece.params for piece in pieces])
    shift = np.repeat(first[:-1], [piece.params.num_rows for piece in pieces])
    moved = pa.array(joined["flow"].to_numpy() + shift, pa.int32())
    return joined.set_column(0, joined.schema.field(0), moved)


def _reordered(params: pa.Table, order: I8) -> pa.Table:
    """Parameters, sorted by flow, for flows that were put in another order."""
    count = np.bincount(params["flow"].to_numpy(), minlength=len(order))
    rows = ranges(offsets(count)[:-1][order], count[order])
    taken = params.take(pa.array(rows))
    moved = pa.array(np.repeat(np.arange(len(order)), count[order]), pa.int32())
    return taken.set_column(0, taken.schema.field(0), moved)
