"""What a stored structure means, by walking it span by span: the definition of `STORED_STRUCTURES_SCHEMA`."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]


def unfolded(stored: Row) -> Row:
    """A row of STRUCTURES_SCHEMA from one of STORED_STRUCTURES_SCHEMA (dicts, as `to_pylist` makes them)."""
    steps = stored["nodes"]
    if stored["in_edges"] is None:
        walk = _Walk(steps)
        nodes, edges, responses = walk.nodes, walk.edges, [len(walk.nodes) - 1]
    else:
        alone = {"side": 0, "mate": -1, "parent": -1}
        nodes = [{**_named(step), **alone, "deferred": step["unawaited"]} for step in steps]
        edges, responses = stored["in_edges"], stored["responses"]
    return {
        "category": stored["category"],
        "root": f"{steps[0]['component']}/{steps[0]['point']}",
        "n_nodes": len(nodes),
        "nodes": nodes,
        "in_edges": edges,
        "responses": responses,
    }


class _Walk:
    """Depth first through one tree: start, marks, children, end."""

    def __init__(self, steps: list[Row]) -> None:
        self.nodes: list[Row] = []
        self._edges: list[tuple[int, int]] = []
        self._span(steps, 0, -1, deferred=False)

    @property
    def edges(self) -> list[Row]:
        return [{"src": src, "dst": dst} for dst, src in sorted((dst, src) for src, dst in self._edges)]

    def _span(self, steps: list[Row], at: int, parent: int, *, deferred: bool) -> tuple[int, int]:
        """Lays the span at `at` and all below it; returns the step behind them and the place of its end."""
        span = steps[at]
        deferred = deferred or span["unawaited"]
        start = self._add(span, 1, parent, deferred)
        waits_for = []
        at += 1
        while at < len(steps) and (steps[at]["depth"] is None or steps[at]["depth"] > span["depth"]):
            if steps[at]["depth"] is None:
                waits_for.append(self._add(steps[at], 0, start, deferred))
                self._edges.append((start, waits_for[-1]))
                at += 1
            else:
                unawaited = steps[at]["unawaited"]
                self._edges.append((start, len(self.nodes)))
                at, end = self._span(steps, at, start, deferred=deferred)
                if not unawaited:
                    waits_for.append(end)
        end = self._add(span, 2, parent, deferred)
        self.nodes[start]["mate"], self.nodes[end]["mate"] = end, start
        self._edges += [(node, end) for node in waits_for or [start]]
        return at, end

    def _add(self, step: Row, side: int, parent: int, deferred: bool) -> int:
        self.nodes.append({**_named(step), "side": side, "mate": -1, "parent": parent, "deferred": deferred})
        return len(self.nodes) - 1


def _named(step: Row) -> Row:
    return {name: step[name] for name in ("component", "point", "label", "kind")}
