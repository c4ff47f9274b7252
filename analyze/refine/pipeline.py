"""Refine the lake's flows of several samples into the `Population` that an analysis works on. Pure.

Steps, in this order: drop untestable flows; split off the work of messages; put hosts into labels; correct
clock skew; reduce to remote calls (level L3 only); find asynchronous children; drop deferred work; decide the
order of siblings; bring nodes into canonical order; make times consistent with graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from analyze.population import DEFAULT_WINDOW_NS, PAIR, Population, Sample
from analyze.refine.asynchrony import DEFERRED, find_asynchronous
from analyze.refine.clocks import corrected, estimate_clocks
from analyze.refine.drafts import draft_graphs, refined_nodes
from analyze.refine.graphs import assemble
from analyze.refine.hosts import decide_host_labels, split_by_hosts
from analyze.refine.messages import with_messages
from analyze.refine.settings import RefineSettings
from analyze.refine.sibling_order import Families, decide_order, families, order_evidence
from analyze.refine.span_trees import SpanTrees
from analyze.refine.stored import FlowMatrices, group_flows
from analyze.refine.structure_nodes import StructureNodes
from schemas.arrays import I1, I8
from schemas.quality import SOMETHING_MISSING, UNTESTABLE, Quality


def refine(
    flows: pa.Table,
    structures: pa.Table,
    settings: RefineSettings,
    samples: tuple[Sample, ...] = PAIR,
    window_ns: int = DEFAULT_WINDOW_NS,
    n_compared: int | None = None,
) -> Population:
    """Refine the flows of all samples together.

    The first `n_compared` samples (None: all) are compared with each other and named in notes; the remaining
    samples are history: their requests only contribute votes.

    flows: FLOWS_SCHEMA plus a column `sample` (uint8, index into `samples`), rows in any order. structures:
    one row per category in `flows`; repeated rows are ignored. The result does not depend on row order.
    Raises LakeError if a category has no structure, or another number of nodes than its structure.
    """
    testable, assessed = _assessed(flows, len(samples))
    matrices = group_flows(testable, structures, len(samples))
    message_notes: tuple[str, ...] = ()
    if settings.messages:
        matrices, message_notes = with_messages(matrices, len(samples[:n_compared]))
    names = [sample.name for sample in samples[:n_compared]]
    labels = decide_host_labels(matrices, settings, names)
    matrices, hosts = split_by_hosts(matrices, labels)
    nodes = StructureNodes.of([category.structure for category in matrices.categories], hosts)
    trees = SpanTrees.of(nodes)
    clocks = estimate_clocks(matrices, trees, settings, len(samples[:n_compared]))
    matrices = corrected(matrices, trees, clocks)
    matrices, trees, async_notes = _pruned(matrices, trees, settings, names)
    kin, relation, order_notes = _ordered(matrices, trees, settings, names)
    nodes = refined_nodes(trees, settings)
    drafts = draft_graphs(matrices.categories, kin, relation, nodes, settings)
    return Population(
        categories=assemble(nodes, drafts, labels.words),
        notes=(*message_notes, *clocks.notes, *async_notes, *order_notes, *labels.notes),
        samples=samples,
        statuses=matrices.statuses,
        hosts=matrices.hosts,
        errors=matrices.errors,
        skew_notes=clocks.notes,
        asynchrony_notes=tuple(note for note in async_notes if note.startswith(DEFERRED)),
        clock_moves=clocks.moves,
        window_ns=window_ns,
        **assessed,
    )


def _assessed(flows: pa.Table, n_samples: int) -> tuple[pa.Table, dict[str, Any]]:
    """(flows without an UNTESTABLE flag; keyword arguments `excluded`, `incomplete`, `weight_known` of
    `Population`, counted over all flows)."""
    quality, sample = flows["quality"].to_numpy(), flows["sample"].to_numpy()

    def counts(flag: int) -> I8:
        """int64[samples]: number of flows that have any of the bits in `flag`."""
        return np.bincount(sample[(quality & np.uint32(flag)) != 0], minlength=n_samples)

    every = np.bincount(sample, minlength=n_samples)
    known = np.bincount(sample, flows["weight_known"].to_numpy(), n_samples)
    excluded = {str(Quality(flag).name): tuple(counts(flag).tolist()) for flag in UNTESTABLE}
    bad = (quality & np.uint32(UNTESTABLE)) != 0
    return (flows.filter(pa.array(~bad)) if bad.any() else flows), {
        "excluded": {flag: by_sample for flag, by_sample in excluded.items() if any(by_sample)},
        "incomplete": tuple(zip(counts(SOMETHING_MISSING).tolist(), every.tolist(), strict=True)),
        "weight_known": tuple((known / np.maximum(every, 1)).tolist()) if len(sample) else (),
    }


def _pruned(
    matrices: FlowMatrices,
    trees: SpanTrees,
    settings: RefineSettings,
    samples: Sequence[str],
) -> tuple[FlowMatrices, SpanTrees, tuple[str, ...]]:
    """Reduce the trees to remote calls (level L3), mark asynchronous children, and remove deferred work.

    Returns (flows with the deferred children that were removed, pruned trees, notes)."""
    notes: tuple[str, ...] = ()
    if settings.level == "L3":
        trees = trees.boundaries()
    if settings.find_asynchrony:
        left, waited, behind, notes = find_asynchronous(matrices, trees, settings, samples)
        trees = trees.left_behind(left, waited, behind, keep_ends=settings.keep_deferred)
    if settings.keep_deferred:
        return matrices, trees, notes
    pruned, removed = trees.without_deferred()
    categories = [*matrices.categories]
    structure, first = np.unique(trees.structure[removed], return_index=True)
    for number, mine in zip(structure.tolist(), np.split(removed, first)[1:], strict=True):
        operations = tuple(trees.nodes.names[name].text for name in trees.operation[mine].tolist())
        called = trees.start[trees.parent[mine]][:, None]
        called = np.broadcast_to(called, (len(mine), categories[number].n_requests))
        categories[number] = replace(categories[number], left_out=operations, left_column=called)
    return replace(matrices, categories=tuple(categories)), pruned, notes


def _ordered(
    matrices: FlowMatrices,
    trees: SpanTrees,
    settings: RefineSettings,
    samples: Sequence[str],
) -> tuple[Families, I1, tuple[str, ...]]:
    """(parents with their children; int8[pairs] `SiblingRelation` of each pair of siblings, by consensus;
    notes)."""
    most = settings.max_siblings if settings.order_siblings else 0
    kin = families(trees, most)
    if not settings.order_siblings:
        return kin, np.zeros(0, np.int8), ()
    votes = order_evidence(matrices.categories, kin, settings, len(samples))
    consensus = decide_order(votes, kin.children, settings, samples)
    n_children = np.bincount(trees.parent[trees.awaited & (trees.parent >= 0)], minlength=len(trees.parent))
    crowded = (matrices.categories[at] for at in np.unique(trees.structure[n_children > most]).tolist())
    # Parts of one structure, which differ in hosts, count once.
    names = {(one.key, one.positions) for one in crowded if (one.sample < len(samples)).any()}
    if names:
        crowd = f"{len(names)} structures have spans with over {most} children, left unordered."
        return kin, consensus.relation, (*consensus.notes, crowd)
    return kin, consensus.relation, consensus.notes
