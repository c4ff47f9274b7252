"""Hold the labelled DAG of a structure in canonical positions, without times, ids and hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Template:
    """Labelled DAG over canonical positions; column `i` of every tuple is node `i`.

    Positions are a topological order (src < dst on every edge) and node 0 is the only source. Whoever makes
    a template answers for its being canonical: isomorphic flows must give equal templates.
    """

    component: tuple[str, ...]
    point: tuple[str, ...]
    label: tuple[str | None, ...]
    kind: tuple[int, ...]
    """EventKind of the event behind the node."""
    side: tuple[int, ...]
    """0 a point, 1 the start of a span, 2 its end."""
    mate: tuple[int, ...]
    """Position of the other side of the span; -1 where there is none or nobody knows."""
    parent: tuple[int, ...]
    """Position of the parent's start; -1 for the root and for records."""
    deferred: tuple[bool, ...]
    """The response does not wait for the node."""
    edges: tuple[tuple[int, int], ...]
    """(src, dst), sorted by (dst, src), transitively reduced."""
    responses: tuple[int, ...]
    """Positions at which the response may leave, ascending."""

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.component)

    @property
    def root(self) -> str:
        """Root type, `component/point` of node 0."""
        return f"{self.component[0]}/{self.point[0]}"

    @classmethod
    def of_graph(
        cls,
        names: Sequence[tuple[str, str, str | None]],
        edges: Sequence[tuple[int, int]],
        responses: Sequence[int],
        *,
        side: Sequence[int] | None = None,
        mate: Sequence[int] | None = None,
        deferred: Sequence[bool] | None = None,
    ) -> Template:
        """A template of a bare labelled DAG, for refined graphs: `names[i]` is (component, point, label).

        Kinds are 0 and parents unknown. Mates, where known, let a leaf span print as one word and a span
        count as one symbol of a loop. Positions must be topological; edges are sorted here.
        """
        n = len(names)
        return cls(
            component=tuple(name[0] for name in names),
            point=tuple(name[1] for name in names),
            label=tuple(name[2] for name in names),
            kind=(0,) * n,
            side=(0,) * n if side is None else tuple(side),
            mate=(-1,) * n if mate is None else tuple(mate),
            parent=(-1,) * n,
            deferred=(False,) * n if deferred is None else tuple(deferred),
            edges=tuple(sorted(((s, d) for s, d in edges), key=lambda edge: (edge[1], edge[0]))),
            responses=tuple(sorted(responses)),
        )
