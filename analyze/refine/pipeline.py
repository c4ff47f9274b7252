"""Refine the lake's rows of several samples into the population that an analysis works on. Pure.

Order of the steps: drop untestable flows, cut out messages, skew (S3), zoom, asynchrony (S7), drop deferred
work, sibling order (S5, S6), host labels, canonical positions again, settle times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from analyze.population import DEFAULT_WINDOW_NS, PAIR, Population, Sample
from analyze.refine.asynchrony import DEFERRED, find_asynchronous
from analyze.refine.clocks import corrected_offsets, estimate_clocks
from analyze.refine.drafts import record_drafts, span_drafts
from analyze.refine.graphs import Draft, LeftOut, assemble
from analyze.refine.hosts import decide_host_labels
from analyze.refine.messages import with_messages
from analyze.refine.settings import RefineSettings
from analyze.refine.sibling_order import Family, Numbers, decide_order, families, order_evidence, pair_rows
from analyze.refine.span_tree import SpanTree, boundaries, leave_behind, span_tree, without_deferred
from analyze.refine.stored import FlowMatrices, group_flows
from schemas.arrays import I8
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

    Only the first `n_compared` samples (None: all) are compared with each other and named in notes; later
    ones are a history, which contributes evidence.

    `flows` has FLOWS_SCHEMA's columns and `sample` (uint8, index into `samples`), in any order; `structures`
    a row for each category of the flows (repetitions are ignored). The result does not depend on the order of
    rows. Raises LakeError if a structure is missing or does not fit.
    """
    testable, assessed = _assessed(flows, len(samples))
    matrices = group_flows(testable, structures, len(samples))
    message_notes: tuple[str, ...] = ()
    if settings.messages:
        matrices, message_notes = with_messages(matrices, len(samples[:n_compared]))
    trees = [span_tree(category.structure) for category in matrices.categories]
    clocks = estimate_clocks(matrices, trees, settings, len(samples[:n_compared]))
    times = [
        corrected_offsets(category, tree, clocks)
        for category, tree in zip(matrices.categories, trees, strict=True)
    ]
    names = [sample.name for sample in samples[:n_compared]]
    trees, left_out, async_notes = _pruned(matrices, times, trees, settings, names)
    ordered, order_notes = _ordered(matrices, times, trees, settings, names)
    labels = decide_host_labels(matrices, settings, names)
    drafts: list[Draft] = []
    for category, matrix, tree, found, left in zip(
        matrices.categories, times, trees, ordered, left_out, strict=True
    ):
        shift = None if matrix is category.node_ns else matrix - category.node_ns
        made = (
            record_drafts(category, matrix, labels, settings)
            if tree is None
            else span_drafts(category, matrix, tree, found, left, labels, settings)
        )
        drafts.extend(
            draft if shift is None else replace(draft, shift=shift[:, draft.rows]) for draft in made
        )
    return Population(
        categories=assemble(drafts),
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
    """(flows that tests may use, fields of `Population` on the quality of all flows)."""
    quality, sample = flows["quality"].to_numpy(), flows["sample"].to_numpy()

    def counts(flag: int) -> I8:
        """[samples] number of flows with any of the flags in `flag`."""
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
    times: Sequence[I8],
    trees: Sequence[SpanTree | None],
    settings: RefineSettings,
    samples: Sequence[str],
) -> tuple[list[SpanTree | None], list[tuple[LeftOut, ...]], tuple[str, ...]]:
    """(trees after zoom, asynchrony and deferral; children left out of each; notes)."""
    notes: tuple[str, ...] = ()
    if settings.level == "L3":
        trees = [None if tree is None else boundaries(tree) for tree in trees]
    if settings.find_asynchrony:
        late, notes = find_asynchronous(matrices, times, trees, settings, samples)
        trees = [
            None
            if tree is None
            else leave_behind(tree, here.left_behind, here.waited, keep_ends=settings.keep_deferred)
            for tree, here in zip(trees, late, strict=True)
        ]
    if settings.keep_deferred:
        return list(trees), [()] * len(trees), notes
    pruned = [(None, ()) if tree is None else without_deferred(tree) for tree in trees]
    return [tree for tree, _ in pruned], [left for _, left in pruned], notes


def _ordered(
    matrices: FlowMatrices,
    times: Sequence[I8],
    trees: Sequence[SpanTree | None],
    settings: RefineSettings,
    samples: Sequence[str],
) -> tuple[list[list[Family]], tuple[str, ...]]:
    """Families of each category with their relations by consensus (S5), and notes."""
    if not settings.order_siblings:
        return [[] for _ in matrices.categories], ()
    numbers = Numbers()
    found = [[] if tree is None else families(tree, numbers, settings.max_siblings) for tree in trees]
    crowded = sum(
        any(len(tree.awaited_children(unit)) > settings.max_siblings for unit in range(tree.n_units))
        for category, tree in zip(matrices.categories, trees, strict=True)
        if tree is not None and bool((category.sample < len(samples)).any())
    )
    votes = order_evidence(matrices.categories, times, trees, found, numbers, settings, len(samples))
    consensus = decide_order(votes, tuple(numbers.children), settings, samples)
    notes = consensus.notes
    if crowded:
        notes = (
            *notes,
            f"{crowded} structures have spans with over {settings.max_siblings} children, left unordered.",
        )
    n_pairs = [len(pair_rows(len(family.children))[0]) for kin in found for family in kin]
    relations = iter(np.split(consensus.relation, np.cumsum(n_pairs)))
    return [[replace(family, relation=next(relations)) for family in kin] for kin in found], notes
