"""A draft: one refined graph before it is canonical, with the requests that take it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from analyze.refine.stored import StoredCategory
from stitch.placed import END, START

I8 = npt.NDArray[np.int64]

_SIDE_MARK = {START: ">", END: "<"}


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a draft."""

    component: str
    point: str
    label: str | None
    host: str
    """Host part of the label; empty for none."""
    side: int
    """POINT, START or END of stitch.placed."""
    mate: int
    """Node of the other side of the span; -1 for points."""
    deferred: bool
    column: int
    """Column of the stored matrix that holds its time."""
    within: tuple[int, int]
    """Nodes whose times bound this one's, the parent's start and end; -1: bounded by the request only."""

    text: str = field(init=False)
    """Display label, `[host/]component/point[/label]`, with `>` or `<` for the side of a span."""

    def __post_init__(self) -> None:
        parts = [self.host] if self.host else []
        parts += [self.component, self.point]
        if self.label is not None:
            parts.append(self.label)
        # Read several times a node: worked out once.
        object.__setattr__(self, "text", "/".join(parts) + _SIDE_MARK.get(self.side, ""))


@dataclass(frozen=True, slots=True)
class Draft:
    """A labelled DAG in some topological order, and the rows that take it."""

    category: StoredCategory
    rows: I8
    """Rows of the stored category, ascending."""
    times: I8
    """[rows, stored nodes] skew-corrected times; interchangeable branches in order of start."""
    nodes: tuple[Node, ...]
    """Topological order; node 0 is the root."""
    edges: tuple[tuple[int, int], ...]
    """(src, dst) nodes; may hold edges implied by others."""
    responses: tuple[int, ...]
    shift: I8 | None = None
    """[rows, stored nodes] what the skew correction added, ns; None: nothing."""
    twins_by_row: bool = False
    """Interchangeable branches may start in another order than their columns stand: look at every row."""
