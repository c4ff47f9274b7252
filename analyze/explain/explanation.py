"""Explain the difference between two classes of requests, and decide if the explanation is reliable.

Affected requests are compared with unaffected requests of the problem if possible, else with the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from analyze.explain.attribute_table import attribute_rows
from analyze.explain.chosen_requests import ChosenRequests, Selection
from analyze.explain.coded_columns import CodedColumns, code_columns
from analyze.explain.columns import ANYWHERE, REQUEST, AttributeColumn
from analyze.explain.rules import best_group, tree_rules
from analyze.explain.settings import SETTINGS
from analyze.explain.table import FeatureTable, Observations, observe, sampled
from analyze.explain.tree import (
    Question,
    Split,
    agreement,
    class_weights,
    cross_validated_auc,
    goes_left,
    grow,
    root_stability,
)
from analyze.population import Population
from analyze.report.wording import NBSP
from schemas.arrays import I8
from schemas.report.explanations import Explanation, Rule

_Reason = Literal["", "no-parameters", "too-few", "not-predictive", "unstable"]
_TWINS_SHOWN = 3


def explain(table: FeatureTable, *, exclude: Sequence[str] = ()) -> Explanation:
    """Explain the difference between the two classes of a table: by a decision tree, worded as rules, and by
    each attribute alone, with measures of reliability.

    exclude: attributes not to be used, as `key` or `component/point key`. A tree is not a reliable
    explanation if the gain of its root split is not significant under shuffled labels, if its AUC over folds
    of time is below `min_auc`, if its root differs between bootstrap samples, or if it separates requests of
    normal times as well (`Controls`). Deterministic in its arguments.
    """
    left_out = tuple(column.text for column in table.columns if _excluded(column, exclude))
    ordinary: list[str] = []
    for _ in range(SETTINGS.most_standing + 1):
        chosen = [
            number
            for number, column in enumerate(table.columns)
            if not _excluded(column, (*exclude, *ordinary))
        ]
        coded, whole = _coded(table, chosen)
        found = _judged_tree(table, coded)
        if found.split is None or whole is None:
            break
        if not _fits_ordinary_times(table, coded, whole, found.split):
            break
        ordinary += found.separating
    rows = attribute_rows(coded, table.affected)
    identifiers = tuple(i for i in table.identifiers if not _named(i.where, i.key, exclude))
    return Explanation(
        contrast=table.contrast,
        reliable=found.reason == "",
        sentence=_sentence(table, found, ordinary),
        auc=found.auc,
        root_stability=found.stability,
        rules=found.rules,
        best=found.best,
        attributes=rows[: SETTINGS.most_attributes],
        attributes_total=len(rows),
        identifiers=identifiers,
        competing=found.competing,
        excluded=left_out,
        reason=found.reason,
    )


def _coded(table: FeatureTable, chosen: Sequence[int]) -> tuple[CodedColumns, CodedColumns | None]:
    """(codes of the table's requests; codes, with the same bins and words, of the table's control requests,
    None without controls). chosen: indices of the columns to code.
    """
    n = len(table.affected)
    columns = [table.columns[number] for number in chosen]
    if table.controls is None:
        return code_columns(columns, n, SETTINGS.numeric_bins, SETTINGS.levels), None
    more = [table.controls.columns[number] for number in chosen]
    both = [
        replace(one, values=np.concatenate([one.values, other.values]), passes=None)
        for one, other in zip(columns, more, strict=True)
    ]
    n_both = n + len(table.controls.problem)
    coded = code_columns(both, n_both, SETTINGS.numeric_bins, SETTINGS.levels)
    return (
        replace(coded, columns=tuple(columns), codes=coded.codes[:, :n]),
        replace(coded, columns=tuple(more), codes=coded.codes[:, n:]),
    )


def _fits_ordinary_times(
    table: FeatureTable,
    coded: CodedColumns,
    controls: CodedColumns,
    split: Split,
) -> bool:
    """True if the root split is no explanation because it describes normal times as well, for example "large
    reads are slow", which is true on every day.

    The split must separate the reference's requests with the symptom (`Controls.usual`) from other requests
    of the reference, in the same direction as it separates the affected requests, by at least `as_usual`
    times the difference of shares. The share of requests on one side of the split must differ by less than
    `new` between problem and reference.
    """
    assert table.controls is not None
    problem, usual = table.controls.problem, table.controls.usual
    rest = ~problem & ~usual
    if not (usual.any() and rest.any() and problem.any()):
        return False
    here = goes_left(coded, split, np.arange(len(table.affected)))
    there = goes_left(controls, split, np.arange(len(problem)))
    difference = float(here[table.affected].mean() - here[~table.affected].mean())
    before = float(there[usual].mean() - there[rest].mean())
    moved = float(there[problem].mean() - there[~problem].mean())
    return before * difference >= SETTINGS.as_usual * difference**2 and abs(moved) < SETTINGS.new


def _excluded(column: AttributeColumn, exclude: Sequence[str]) -> bool:
    """True if `exclude` contains the name of the column, with or without the aggregate."""
    return _named(column.where, column.key, exclude) or _named(column.where, column.name, exclude)


def _named(where: str, key: str, names: Sequence[str]) -> bool:
    given = [name.strip() for name in names]
    if where == ANYWHERE:  # of whichever operation it is asked to leave it out
        return any(n == key or n.endswith(f" {key}") or n.startswith(f"{key} at ") for n in given)
    return any(name in (key, f"{where} {key}", f"{key} at {where}") for name in given)


@dataclass(frozen=True, slots=True)
class _JudgedTree:
    """Decision tree that separates two classes, with measures of its reliability, or the reason why it is not
    reliable."""

    reason: _Reason
    auc: float | None = None
    """Cross-validated area under the ROC curve; None if no tree was grown."""
    stability: float | None = None
    """Share of bootstrap samples whose tree has an equivalent root, in [0, 1]."""
    rules: tuple[Rule, ...] = ()
    """Rules of the tree; empty if it is not reliable."""
    competing: tuple[str, ...] = ()
    best: Rule | None = None
    """Best rule of the tree; None if the tree is not reliable."""
    twins: tuple[str, ...] = ()
    """Names of columns other than the root's whose best split separates the requests in the same way as the
    root split."""
    separating: tuple[str, ...] = ()
    """Names, without aggregates, of the root split's column and of the columns in `twins`."""
    split: Split | None = None
    """Split at the root of the tree; None if the tree is not reliable."""


def _judged_tree(table: FeatureTable, coded: CodedColumns) -> _JudgedTree:
    """Grow a tree that separates the classes of a table, and decide if it is reliable."""
    affected = table.affected
    n = len(affected)
    if min(int(affected.sum()), int((~affected).sum())) < SETTINGS.least_requests:
        return _JudgedTree("too-few")
    if not coded.columns:
        return _JudgedTree("not-predictive" if table.had_columns else "no-parameters")
    rows = np.arange(n)
    tree = grow(coded, affected, table.block, rows, SETTINGS.perms)
    if tree.question is None:
        return _JudgedTree("not-predictive")
    area = cross_validated_auc(coded, affected, table.block, table.fold)
    if area is None or area < SETTINGS.min_auc:
        return _JudgedTree("not-predictive", area)
    stability = root_stability(coded, affected, tree.question)
    root = coded.columns[tree.question.split.column]
    competing = tuple(coded.columns[c].text for c in stability.competing[:_TWINS_SHOWN])
    if stability.share < SETTINGS.min_stability:
        return _JudgedTree("unstable", area, stability.share, competing=(root.text, *competing))
    weights = class_weights(affected)
    twins = _twins(coded, tree.question, rows)
    return _JudgedTree(
        "",
        area,
        stability.share,
        tree_rules(coded, tree, weights),
        best=best_group(coded, tree, weights),
        twins=tuple(twin.key if twin.where == root.where else twin.text for twin in twins),
        separating=tuple(column.text for column in (replace(root, aggregate=""), *twins)),
        split=tree.question.split,
    )


def _twins(coded: CodedColumns, question: Question, rows: I8) -> tuple[AttributeColumn, ...]:
    """Columns other than the root's whose best split separates the requests `rows` in the same way."""
    base = goes_left(coded, question.split, rows)
    root = coded.columns[question.split.column]
    twins: dict[tuple[str, str], AttributeColumn] = {}
    for number, column in enumerate(coded.columns):
        if (column.where, column.key) == (root.where, root.key) or question.gains.gain[number, 0] <= 0:
            continue
        if agreement(base, goes_left(coded, question.gains.split(number), rows)) >= SETTINGS.twin:
            twins.setdefault((column.where, column.key), replace(column, aggregate=""))
    return tuple(twins.values())


def _sentence(table: FeatureTable, found: _JudgedTree, ordinary: Sequence[str]) -> str:
    """Summary of an explanation for the reader, in one or two sentences. ordinary: names of attributes that
    separate requests in normal times, too."""
    changed = ""
    if table.identifiers:
        places: dict[str, list[str]] = {}
        for i in table.identifiers:
            places.setdefault(f"{i.key} {i.before} → {i.after}", []).append(i.where)
        named = [
            what + (_at(at[0]) if len(at) == 1 else f" at {len(at)} places") for what, at in places.items()
        ]
        more = f" and {len(named) - 2} more" if len(named) > 2 else ""
        changed = f" Changed with the period: {'; '.join(named[:2])}{more}."
    if ordinary:
        verb = "tells" if len(ordinary) == 1 else "tell"
        changed += f" {', '.join(ordinary[:_TWINS_SHOWN])} {verb} such requests apart in the reference, too."
    if found.reason == "":
        return _best_rule(table, found) + changed
    contrast = table.contrast
    why = {
        "no-parameters": "there is no parameter or host to compare",
        "too-few": f"{contrast.n_affected} and {contrast.n_others} requests are too few",
        "not-predictive": "no parameter tells them apart",
        "unstable": "the answer changes from sample to sample",
    }[found.reason]
    if table.identifiers and found.reason in ("not-predictive", "no-parameters"):
        return f"{changed.strip()} Beyond that no parameter tells them apart."
    return f"No reliable explanation: {why}.{changed}"


def _best_rule(table: FeatureTable, found: _JudgedTree) -> str:
    """Sentence with the best rule of the tree, for the reader, and the names of columns that separate equally
    well."""
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
    return f"{' and '.join(best.conditions)}: {shares}.{also}"


def _percent(share: float) -> str:
    if 0 < share < 0.01:
        return f"under 1{NBSP}%"
    return f"over 99{NBSP}%" if 0.99 < share < 1 else f"{100 * share:.0f}{NBSP}%"


def _at(where: str) -> str:
    return "" if where in (REQUEST, ANYWHERE) else f" at {where}"


_OF_AFFECTED, _OF_REFERENCE, _OF_USUAL, _OF_PROBLEM = range(4)
"""Group numbers in `Difference.chosen`: affected requests; requests of the reference without the symptom;
requests of the reference with the symptom; unaffected requests of the problem."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Sampled groups of requests whose difference is to be explained. Created by `difference`."""

    chosen: ChosenRequests
    n_unaffected: int
    """Number of unaffected requests of the problem before sampling."""
    has_usual: bool
    words: tuple[str, str, str]
    """Descriptions of three groups: affected requests, unaffected requests of the problem, requests of the
    reference."""
    exclude: Sequence[str]


def difference(
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
) -> Difference:
    """Sample the affected requests, unaffected requests of the problem, and requests of the reference, for
    `explain_differences`.

    All selections should contain only requests that reach the changed site: requests that do not reach it
    differ in structure, not in an attribute.

    usual: requests of the reference with the same symptom (as slow, the same path). An explanation that also
    separates these from the rest of the reference says nothing new ("large reads are slow") and is rejected.
    words: descriptions of (affected requests, unaffected requests of the problem, requests of the reference).
    exclude: attributes not to be used, see `explain`.
    """
    none = Selection({})
    as_usual = none if usual is None else usual
    inside = none if unaffected is None else unaffected
    groups = (affected, reference.without(as_usual), as_usual, inside)
    return Difference(sampled(population, groups), inside.n_requests, usual is not None, words, exclude)


def explain_differences(population: Population, asked: Sequence[Difference]) -> Iterator[Explanation]:
    """Yield an explanation of each difference, in order. Parameters of all requests are read together."""
    observed = observe(population, [one.chosen for one in asked])
    for one, found in zip(asked, observed, strict=True):
        yield _explained(one, found)


def _explained(asked: Difference, observed: Observations) -> Explanation:
    """Explain the difference of affected requests from the unaffected requests of the problem, or from the
    requests of the reference.

    The comparison within the problem is used if it is reliable and about as good (`as_good`) as the
    comparison with the reference. Identifiers that changed with the period are reported in both cases.
    """
    words, control = asked.words, None
    if asked.has_usual:
        control = (_OF_AFFECTED, _OF_PROBLEM), (_OF_REFERENCE, _OF_USUAL), _OF_USUAL

    def explained(others: tuple[int, ...], said: str) -> Explanation:
        table = observed.contrast(_OF_AFFECTED, others, (words[0], said), control=control)
        return explain(table, exclude=asked.exclude)

    within = None
    if asked.n_unaffected >= SETTINGS.least_requests:
        within = explained((_OF_PROBLEM,), words[1])
        if within.reliable and (within.auc or 0.0) >= 1.0 - SETTINGS.as_good:
            return within  # no contrast can be better by more
    shown = explained((_OF_REFERENCE, _OF_USUAL), words[2])
    if within is not None and within.reliable:
        as_good = (within.auc or 0.0) >= (shown.auc or 0.0) - SETTINGS.as_good
        return within if as_good or not shown.reliable else shown
    return shown
