"""Where flows begin: sources, orphans, and the synthetic nodes that give every flow one root."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schemas.arrays import B1, I8, U8
from schemas.events import EventKind
from stitch.graph.labels import synthetic_hash
from stitch.graph.placed import MISSING_EVENT, ROOT_EVENT


@dataclass(frozen=True, slots=True)
class Entries:
    """Nodes that nothing precedes."""

    sources: I8
    """Nodes without an edge into them, ascending; also the one orphan of a flow that has no other entry."""
    orphans: I8
    """Other nodes whose explicit parents are all missing and that have no edge into them, ascending."""
    n_sources: I8
    """[flows]"""
    n_orphans: I8
    """[flows]"""
    tops: I8
    """The sources, and the orphans of flows without a source."""


def find_entries(node_flow: I8, n_flows: int, has_in: B1, orphan: B1) -> Entries:
    """Sources and orphans; has_in: [nodes] an edge comes in; orphan: [nodes] known to be one."""
    orphans = np.flatnonzero(orphan)
    sources = np.flatnonzero(~has_in & ~orphan)
    n_sources = np.bincount(node_flow[sources], minlength=n_flows)
    n_orphans = np.bincount(node_flow[orphans], minlength=n_flows)
    lone = (n_sources[node_flow[orphans]] == 0) & (n_orphans[node_flow[orphans]] == 1)
    sources, orphans = np.sort(np.concatenate((sources, orphans[lone]))), orphans[~lone]
    n_sources = np.bincount(node_flow[sources], minlength=n_flows)
    n_orphans = np.bincount(node_flow[orphans], minlength=n_flows)
    headless = orphans[n_sources[node_flow[orphans]] == 0]
    return Entries(sources, orphans, n_sources, n_orphans, np.concatenate((sources, headless)))


@dataclass(frozen=True, slots=True)
class Synthetic:
    """`?root` and `?missing` nodes, numbered on from the last node, and the edges they bring."""

    event: I8
    """[synthetic] ROOT_EVENT or MISSING_EVENT."""
    flow: I8
    """[synthetic]"""
    ts_ns: I8
    """[synthetic] smallest time of the children."""
    label: U8
    """[synthetic] label hash."""
    src: I8
    """[edges] node."""
    dst: I8
    """[edges] node."""


def make_synthetic(entries: Entries, node_flow: I8, ts_ns: I8) -> Synthetic:
    """`?root` above several sources; `?missing` above orphans, itself below the root if there is one.

    node_flow, ts_ns: [nodes].
    """
    n_nodes = len(node_flow)
    rooted = np.flatnonzero(entries.n_sources > 1)
    missing = np.flatnonzero(entries.n_orphans > 0)
    n_of_flow = entries.n_sources[node_flow[entries.sources]]
    single, several = entries.sources[n_of_flow == 1], entries.sources[n_of_flow > 1]
    root_of = np.full(len(entries.n_sources), -1, dtype=np.int64)
    root_of[node_flow[single]] = single
    root_of[rooted] = n_nodes + np.arange(len(rooted))
    missing_of = np.full(len(entries.n_sources), -1, dtype=np.int64)
    missing_of[missing] = n_nodes + len(rooted) + np.arange(len(missing))
    under = missing[root_of[missing] >= 0]
    times = np.concatenate((ts_ns, np.full(len(rooted) + len(missing), np.iinfo(np.int64).max)))
    orphan_parent = missing_of[node_flow[entries.orphans]]
    # Times of `?missing` before those of `?root`, whose child it may be.
    np.minimum.at(times, orphan_parent, ts_ns[entries.orphans])
    source_parent = root_of[node_flow[several]]
    np.minimum.at(times, source_parent, ts_ns[several])
    below_made = under[root_of[under] >= n_nodes]
    np.minimum.at(times, root_of[below_made], times[missing_of[below_made]])
    return Synthetic(
        event=np.repeat(np.array([ROOT_EVENT, MISSING_EVENT], np.int64), (len(rooted), len(missing))),
        flow=np.concatenate((rooted, missing)),
        ts_ns=times[n_nodes:],
        label=np.repeat(
            np.array(
                [synthetic_hash(made, EventKind.EVENT) for made in (ROOT_EVENT, MISSING_EVENT)], np.uint64
            ),
            (len(rooted), len(missing)),
        ),
        src=np.concatenate((source_parent, orphan_parent, root_of[under])),
        dst=np.concatenate((several, entries.orphans, missing_of[under])),
    )
