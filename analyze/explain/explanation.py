"""Explain what separates two classes of requests, and whether that can be relied on.

A finding is explained inside the problem period where possible, else against the reference. The table a
user reads first says how unlike each attribute is in the two classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import chdtrc, xlogy

from analyze.explain.chosen_requests import Selection
from analyze.explain.columns import MISSING, REQUEST, AttributeColumn
from analyze.explain.rules import NodeGroup, best_group, tree_rules
from analyze.explain.settings import ExplainSettings
from analyze.explain.table import FeatureTable, observe
from analyze.explain.tree import (
    CodedColumns,
    Split,
    TreeNode,
    agreement,
    ask,
    best_splits,
    class_weights,
    code_columns,
    cross_validated_auc,
    goes_left,
    grow,
    least_leaf,
    root_stability,
)
from analyze.population import Population
from analyze.report.wording import NBSP
from analyze.stats.ks import p_two_sided
from analyze.stats.multiple import q_values
from schemas.arrays import B1, F8
from schemas.report.explanations import AttributeRow, Explanation, LevelShare, Rule

_Reason = Literal["", "no-parameters", "too-few", "not-predictive", "unstable"]
_TWINS_SHOWN = 3
_LEVELS_SHOWN = 3


def explain(
    table: FeatureTable, *, exclude: Sequence[str] = (), settings: ExplainSettings | None = None
) -> Explanation:
    """What parts the table's classes: a tree as rules, the attributes one by one, and how sure that is.

    exclude: attributes that the user does not want to see at the root again, as `key`, or `component/point
    key`. Never more than the data carry: a tree whose root does not beat shuffled labels, whose AUC over
    folds of time is below `min_auc`, or whose root changes from bootstrap to bootstrap, is not shown as an
    explanation. Neither is one that says the same in the baseline (`Controls`). Deterministic in its
    arguments.
    """
    asked = ExplainSettings() if settings is None else settings
    left_out = tuple(column.text for column in table.columns if _excluded(column, exclude))
    standing: list[str] = []
    for _ in range(asked.most_standing + 1):
        chosen = [
            number
            for number, column in enumerate(table.columns)
            if not _excluded(column, (*exclude, *standing))
        ]
        coded, whole = _coded(table, chosen, asked)
        found = _judged(table, coded, asked)
        if found.tree is None or whole is None or not _on_every_day(table, coded, whole, found, asked):
            break
        standing += found.parting
    rows = _attribute_rows(coded, table.affected)
    identifiers = tuple(i for i in table.identifiers if not _named(i.where, i.key, exclude))
    return Explanation(
        contrast=table.contrast,
        reliable=found.reason == "",
        sentence=_sentence(table, found, standing),
        auc=found.auc,
        root_stability=found.stability,
        rules=found.rules,
        attributes=rows[: asked.most_attributes],
        attributes_total=len(rows),
        identifiers=identifiers,
        competing=found.competing,
        excluded=left_out,
        reason=found.reason,
    )


def _coded(
    table: FeatureTable, chosen: Sequence[int], settings: ExplainSettings
) -> tuple[CodedColumns, CodedColumns | None]:
    """Codes of the table's requests, and under the same codes those of its controls."""
    n = len(table.affected)
    columns = [table.columns[number] for number in chosen]
    if table.controls is None:
        return code_columns(columns, n, settings.numeric_bins, settings.levels), None
    more = [table.controls.columns[number] for number in chosen]
    both = [
        replace(one, values=np.concatenate([one.values, other.values]), passes=None)
        for one, other in zip(columns, more, strict=True)
    ]
    n_both = n + len(table.controls.problem)
    coded = code_columns(both, n_both, settings.numeric_bins, settings.levels)
    return (
        replace(coded, columns=tuple(columns), codes=coded.codes[:, :n]),
        replace(coded, columns=tuple(more), codes=coded.codes[:, n:]),
    )


def _on_every_day(
    table: FeatureTable,
    coded: CodedColumns,
    controls: CodedColumns,
    found: _Judged,
    settings: ExplainSettings,
) -> bool:
    """Whether the root says what it would say on any day: large reads are slow, and are no more than
    before.

    It must part the usual requests of the reference from its rest, the same way and half as well as the
    affected from the others, and must not part problem from reference by `settings.new`.
    """
    assert table.controls is not None
    assert found.tree is not None
    split = found.tree.split
    problem, usual = table.controls.problem, table.controls.usual
    rest = ~problem & ~usual
    if split is None or not (usual.any() and rest.any() and problem.any()):
        return False
    here = goes_left(coded, split, np.arange(len(table.affected)))
    there = goes_left(controls, split, np.arange(len(problem)))
    difference = float(here[table.affected].mean() - here[~table.affected].mean())
    before = float(there[usual].mean() - there[rest].mean())
    moved = float(there[problem].mean() - there[~problem].mean())
    return before * difference >= settings.as_usual * difference**2 and abs(moved) < settings.new


def _excluded(column: AttributeColumn, exclude: Sequence[str]) -> bool:
    """Whether the user does not want to see a column, in any of its aggregates."""
    return _named(column.where, column.key, exclude) or _named(column.where, column.name, exclude)


def _named(where: str, key: str, names: Sequence[str]) -> bool:
    said = {key, f"{where} {key}", f"{key} at {where}"}
    return any(name.strip() in said for name in names)


@dataclass(frozen=True, slots=True)
class _Judged:
    """What became of the tree."""

    reason: _Reason
    auc: float | None = None
    stability: float | None = None
    rules: tuple[Rule, ...] = ()
    competing: tuple[str, ...] = ()
    best: NodeGroup | None = None
    twins: tuple[str, ...] = ()
    """Columns that part the requests as the root does."""
    parting: tuple[str, ...] = ()
    """The root's column and its twins, without aggregates."""
    tree: TreeNode | None = None


def _judged(table: FeatureTable, coded: CodedColumns, settings: ExplainSettings) -> _Judged:
    """The tree, if it can be relied on, else why not."""
    affected = table.affected
    n = len(affected)
    if min(int(affected.sum()), int((~affected).sum())) < settings.least_requests:
        return _Judged("too-few")
    if not coded.columns:
        return _Judged("not-predictive" if table.had_columns else "no-parameters")
    rows = np.arange(n)
    weights = class_weights(affected)
    rng = np.random.default_rng(settings.seed)
    question = ask(
        coded, affected, table.block, rows, weights, least_leaf(n, settings), settings, settings.perms, rng
    )
    if question is None or question.p > settings.gate:
        return _Judged("not-predictive")
    area = cross_validated_auc(coded, affected, table.block, table.fold, settings)
    if area is None or area < settings.min_auc:
        return _Judged("not-predictive", area)
    stability = root_stability(coded, affected, question, settings)
    competing = tuple(coded.columns[c].text for c in stability.competing[:_TWINS_SHOWN])
    if stability.share < settings.min_stability:
        return _Judged(
            "unstable",
            area,
            stability.share,
            competing=(coded.columns[question.split.column].text, *competing),
        )
    root = coded.columns[question.split.column]
    tree = grow(coded, affected, table.block, rows, settings, settings.perms)
    twins = _twins(coded, tree, affected, settings)
    return _Judged(
        "",
        area,
        stability.share,
        tree_rules(coded, tree, weights),
        best=best_group(coded, tree, weights),
        twins=tuple(twin.key if twin.where == root.where else twin.text for twin in twins),
        parting=tuple(column.text for column in (replace(root, aggregate=""), *twins)),
        tree=tree,
    )


def _twins(
    coded: CodedColumns, tree: TreeNode, affected: B1, settings: ExplainSettings
) -> tuple[AttributeColumn, ...]:
    """Other parameters that part the requests as the root's does."""
    if tree.split is None:
        return ()
    rows = np.arange(len(affected))
    label = affected[:, None].astype(np.float32)
    found = best_splits(
        coded,
        coded.incidence(rows),
        label,
        1 - label,
        class_weights(affected),
        least_leaf(len(affected), settings),
    )
    base = goes_left(coded, tree.split, rows)
    root = coded.columns[tree.split.column]
    twins: dict[tuple[str, str], AttributeColumn] = {}
    for number, column in enumerate(coded.columns):
        if (column.where, column.key) == (root.where, root.key) or found.gain[number, 0] <= 0:
            continue
        split = Split(number, int(found.cut[number, 0]), bool(found.missing_left[number, 0]))
        if agreement(base, goes_left(coded, split, rows)) >= settings.twin:
            twins.setdefault((column.where, column.key), replace(column, aggregate=""))
    return tuple(twins.values())


def _sentence(table: FeatureTable, found: _Judged, standing: Sequence[str]) -> str:
    """What a reader needs to know, in one or two sentences."""
    changed = ""
    if table.identifiers:
        named = [f"{i.key}{_at(i.where)} {i.before} → {i.after}" for i in table.identifiers]
        more = f" and {len(named) - 2} more" if len(named) > 2 else ""
        changed = f" Changed with the period: {'; '.join(named[:2])}{more}."
    if standing:
        verb = "tells" if len(standing) == 1 else "tell"
        changed += f" {', '.join(standing[:_TWINS_SHOWN])} {verb} such requests apart in the reference, too."
    if found.reason == "":
        return _said(table, found) + changed
    area = "" if found.auc is None else f" (AUC {found.auc:.2f})"
    contrast = table.contrast
    why = {
        "no-parameters": "there is no parameter or host to compare",
        "too-few": f"{contrast.n_affected} and {contrast.n_others} requests are too few",
        "not-predictive": f"no attribute tells them apart{area}",
        "unstable": f"the answer changes from sample to sample{area}",
    }[found.reason]
    if table.identifiers and found.reason in ("not-predictive", "no-parameters"):
        return f"{changed.strip()} Beyond that no attribute tells them apart{area}."
    return f"No reliable explanation: {why}.{changed}"


def _said(table: FeatureTable, found: _Judged) -> str:
    """The rule that holds for most affected and fewest other requests."""
    n1 = max(int(table.affected.sum()), 1)
    n0 = max(int((~table.affected).sum()), 1)
    best = found.best
    assert best is not None
    twins = found.twins[:_TWINS_SHOWN]
    more = f" and {len(found.twins) - len(twins)} more" if len(found.twins) > len(twins) else ""
    also = (
        f" {', '.join(twins)}{more} tell{'s' if len(found.twins) == 1 else ''} them apart as well."
        if twins
        else ""
    )
    shares = (
        f"{_percent(best.n_affected / n1)} of the {table.contrast.affected}, "
        f"{_percent(best.n_others / n0)} of the {table.contrast.others}"
    )
    return f"{' and '.join(best.conditions)}: {shares} (AUC {found.auc:.2f}).{also}"


def _percent(share: float) -> str:
    if 0 < share < 0.01:
        return f"under 1{NBSP}%"
    return f"over 99{NBSP}%" if 0.99 < share < 1 else f"{100 * share:.0f}{NBSP}%"


def _at(where: str) -> str:
    return "" if where == REQUEST else f" at {where}"


class _Unlike(NamedTuple):
    distance: float
    p: float
    levels: tuple[LevelShare, ...]
    medians: tuple[float | None, float | None]


def _attribute_rows(coded: CodedColumns, affected: B1) -> tuple[AttributeRow, ...]:
    """A row for every column, the most unlike first; q over all of them (Benjamini-Hochberg).

    Words: Jensen-Shannon distance (base 2, so 1 is the most) of the levels, p of the G-test. Numbers:
    Kolmogorov-Smirnov, p asymptotic; where a number is missing more often in one class than numbers differ,
    the difference of that share.
    """
    found = [
        _numbers(column, affected) if column.numeric else _words(coded, number, affected)
        for number, column in enumerate(coded.columns)
    ]
    if not found:
        return ()
    q = q_values(np.clip([one.p for one in found], 0.0, 1.0))
    rows = [
        AttributeRow(
            where=column.where,
            key=column.name,
            numeric=column.numeric,
            distance=one.distance,
            p=one.p,
            q=float(q[number]),
            levels=one.levels,
            median_affected=one.medians[0],
            median_others=one.medians[1],
        )
        for number, (column, one) in enumerate(zip(coded.columns, found, strict=True))
    ]
    return tuple(sorted(rows, key=lambda row: (-row.distance, row.p, row.where, row.key)))


def _words(coded: CodedColumns, number: int, affected: B1) -> _Unlike:
    codes = coded.codes[number]
    counts = np.array(
        [np.bincount(codes[side], minlength=coded.width) for side in (affected, ~affected)], dtype=np.float64
    )
    distance, p = _js_distance(counts), _g_test(counts)
    return _Unlike(distance, p, _levels(coded, number, counts), (None, None))


def _levels(coded: CodedColumns, number: int, counts: F8) -> tuple[LevelShare, ...]:
    """The levels whose shares differ most."""
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    there = np.flatnonzero(counts.sum(axis=0))
    order = there[np.argsort(-np.abs(share[0] - share[1])[there], kind="stable")]
    return tuple(
        LevelShare(
            value=coded.word(number, int(code)),
            share_affected=float(share[0, code]),
            share_others=float(share[1, code]),
        )
        for code in order[:_LEVELS_SHOWN]
    )


def _numbers(column: AttributeColumn, affected: B1) -> _Unlike:
    known = ~np.isnan(column.values)
    sides = [column.values[known & side] for side in (affected, ~affected)]
    medians = [_median(side) for side in sides]
    d, p = _ks(sides[0], sides[1])
    missing = np.array([[(~known & side).sum(), (known & side).sum()] for side in (affected, ~affected)])
    levels: tuple[LevelShare, ...] = ()
    if missing[:, 0].any():
        share = missing[:, 0] / np.maximum(missing.sum(axis=1), 1)
        gap = float(abs(share[0] - share[1]))
        if gap > d:
            d, p = gap, _g_test(missing.astype(np.float64))
            levels = (
                LevelShare(value=MISSING, share_affected=float(share[0]), share_others=float(share[1])),
            )
    return _Unlike(d, p, levels, (medians[0], medians[1]))


def _median(values: F8) -> float | None:
    """The lower median: always one of the values, and finite."""
    middle = (len(values) - 1) // 2
    return float(np.partition(values, middle)[middle]) if len(values) else None


def _js_distance(counts: F8) -> float:
    """Square root of the Jensen-Shannon divergence (bits) of two rows of counts; 0 where one is empty."""
    total = counts.sum(axis=1, keepdims=True)
    if (total == 0).any():
        return 0.0
    share = counts / total
    mean = share.mean(axis=0)
    divergence = (xlogy(share, share).sum(axis=1) - xlogy(share, mean).sum(axis=1)).mean() / np.log(2)
    return float(np.sqrt(np.clip(divergence, 0.0, 1.0)))


def _g_test(counts: F8) -> float:
    """P of the G-test that two rows of counts have the same shares; 1 where nothing is known."""
    counts = counts[:, counts.sum(axis=0) > 0]
    rows = counts.sum(axis=1, keepdims=True)
    if counts.shape[1] < 2 or (rows == 0).any():
        return 1.0
    expected = rows * counts.sum(axis=0) / counts.sum()
    g = 2 * (xlogy(counts, counts) - xlogy(counts, expected)).sum()
    return float(chdtrc(counts.shape[1] - 1, max(g, 0.0)))


def _ks(one: F8, other: F8) -> tuple[float, float]:
    """Kolmogorov-Smirnov statistic of two samples and its asymptotic p; (0, 1) where one is empty."""
    if len(one) == 0 or len(other) == 0:
        return 0.0, 1.0
    both = np.sort(np.concatenate([one, other]))
    gaps = [np.searchsorted(np.sort(side), both, side="right") / len(side) for side in (one, other)]
    d = float(np.abs(gaps[0] - gaps[1]).max())
    return d, float(p_two_sided(np.array(d), np.array(len(one)), np.array(len(other))))


def explain_finding(
    population: Population,
    affected: Selection,
    unaffected: Selection | None,
    reference: Selection,
    *,
    usual: Selection | None = None,
    words: tuple[str, str, str] = (
        "affected requests",
        "other requests of the problem",
        "requests of the reference",
    ),
    exclude: Sequence[str] = (),
) -> Explanation:
    """Explain what separates `affected` (problem) from `unaffected` (problem) and from `reference` requests.

    Both contrasts share one reading of parameters. The one inside the problem (M2, M4) is shown where it is
    reliable and about as good as the other (M1, M3). Identifiers that changed with the period are reported in
    either. Selections should be of requests that reach the changed site; what only affected requests pass is
    no parameter.

    usual: those of the reference that show what the affected show (as slow, the same path). What separates
    them from the rest of the reference is no news, large reads are slow on every day, and is left out inside
    the problem. words: what the three groups are, for people. exclude: attributes that are not to be used.
    """
    asked, none = ExplainSettings(), Selection({})
    as_usual = none if usual is None else usual
    inside = none if unaffected is None else unaffected
    groups = (affected, reference.without(as_usual), as_usual, inside)
    observed = observe(population, groups, asked)
    control = None if usual is None else ((0, 3), (1, 2), 2)
    contrasts: list[tuple[tuple[int, ...], str]] = [((1, 2), words[2])]
    if inside.n_requests >= asked.least_requests:
        contrasts.append(((3,), words[1]))
    shown: Explanation | None = None
    for others, said in contrasts:
        table = observed.contrast(0, others, (words[0], said), asked, control=control)
        found = explain(table, exclude=exclude, settings=asked)
        as_good = shown is None or (found.auc or 0.0) >= (shown.auc or 0.0) - asked.as_good
        if shown is None or (found.reliable and (as_good or not shown.reliable)):
            shown = found
    assert shown is not None
    return shown
