"""`explain`: what tells two classes apart, and whether that can be relied on (ALGORITHMS D.4, D.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from analyze.explain.attribute_column import REQUEST, Column
from analyze.explain.attribute_contrast import attribute_rows
from analyze.explain.column_codes import CodedColumns, code_columns
from analyze.explain.explain_settings import ExplainSettings
from analyze.explain.feature_table import FeatureTable
from analyze.explain.gated_tree import Node, Split, ask, goes_left, grow, least_leaf, split_columns
from analyze.explain.split_gain import best_splits, class_weights
from analyze.explain.tree_rules import Group, best_group, tree_rules
from analyze.explain.tree_validation import agreement, cross_validated_auc, root_stability
from schemas.report.explanations import Explanation, Rule

Reason = Literal["", "no-parameters", "too-few", "not-predictive", "unstable"]

_TWINS_SHOWN = 3
_TWIN = 0.98
"""Correlation of two columns' answers from which they say the same."""


def explain(
    table: FeatureTable,
    *,
    exclude: Sequence[str] = (),
    standing: Sequence[str] = (),
    settings: ExplainSettings | None = None,
) -> Explanation:
    """What parts the table's classes: a tree as rules, the attributes one by one, and how sure that is.

    exclude: attributes that the user does not want to see at the root again, as `key`, or `component/point
    key`. standing: attributes that part such requests at other times, too (`parting_columns`), left out
    alike. Never more than the data carry: a tree whose root does not beat shuffled labels, whose AUC over
    folds of time is below `min_auc`, or whose root changes from bootstrap to bootstrap, is not shown as an
    explanation. Deterministic in its arguments.
    """
    asked = ExplainSettings() if settings is None else settings
    columns = tuple(column for column in table.columns if not excluded(column, (*exclude, *standing)))
    left_out = tuple(column.text for column in table.columns if excluded(column, exclude))
    coded = code_columns(columns, len(table.affected), asked.numeric_bins, asked.levels)
    rows = attribute_rows(coded, table.affected)
    found = _judged(table, coded, asked)
    identifiers = tuple(i for i in table.identifiers if not _named(i.where, i.key, exclude))
    return Explanation(
        contrast=table.contrast,
        reliable=found.reason == "",
        sentence=_sentence(table, found, tuple(n for n in standing if n not in exclude)),
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


def parting_columns(
    table: FeatureTable, *, exclude: Sequence[str] = (), settings: ExplainSettings | None = None
) -> tuple[str, ...]:
    """Attributes, `key at component/point`, that tell the classes apart reliably; empty where none do."""
    asked = ExplainSettings() if settings is None else settings
    columns = tuple(column for column in table.columns if not excluded(column, exclude))
    coded = code_columns(columns, len(table.affected), asked.numeric_bins, asked.levels)
    found = _judged(table, coded, asked)
    return found.parting


def excluded(column: Column, exclude: Sequence[str]) -> bool:
    """Whether the user does not want to see a column, in any of its aggregates."""
    return _named(column.where, column.key, exclude) or _named(column.where, column.name, exclude)


def _named(where: str, key: str, names: Sequence[str]) -> bool:
    said = {key, f"{where} {key}", f"{key} at {where}"}
    return any(name.strip() in said for name in names)


@dataclass(frozen=True, slots=True)
class _Judged:
    """What became of the tree."""

    reason: Reason
    auc: float | None = None
    stability: float | None = None
    rules: tuple[Rule, ...] = ()
    competing: tuple[str, ...] = ()
    best: Group | None = None
    twins: tuple[str, ...] = ()
    """Columns that part the requests as the root does."""
    parting: tuple[str, ...] = ()
    """Columns of the tree and the twins of its root, without aggregates."""


def _judged(table: FeatureTable, coded: CodedColumns, settings: ExplainSettings) -> _Judged:
    """The tree, if it can be relied on, else why not."""
    affected = table.affected
    n = len(affected)
    if min(int(affected.sum()), int((~affected).sum())) < settings.least_requests:
        return _Judged("too-few")
    coded = _narrow(coded, settings)
    if not coded.columns:
        return _Judged("not-predictive" if table.had_columns else "no-parameters")
    rows = np.arange(n)
    weights = class_weights(affected)
    rng = np.random.default_rng(settings.seed)
    question = ask(coded, affected, table.block, rows, weights, least_leaf(n, settings), settings.perms, rng)
    if question is None or question.p > settings.gate:
        return _Judged("not-predictive")
    auc = cross_validated_auc(coded, affected, table.block, table.fold, settings)
    if auc is None or auc < settings.min_auc:
        return _Judged("not-predictive", auc)
    stability = root_stability(coded, affected, question, settings)
    competing = tuple(coded.columns[c].text for c in stability.competing[:_TWINS_SHOWN])
    if stability.share < settings.min_stability:
        return _Judged(
            "unstable",
            auc,
            stability.share,
            competing=(coded.columns[question.split.column].text, *competing),
        )
    root = coded.columns[question.split.column]
    tree = grow(coded, affected, table.block, rows, settings, settings.perms)
    twins = _twins(coded, tree, affected, settings)
    named = (replace(coded.columns[column], aggregate="").text for column in split_columns(tree))
    return _Judged(
        "",
        auc,
        stability.share,
        tree_rules(coded, tree, weights),
        best=best_group(coded, tree, weights),
        twins=tuple(twin.key if twin.where == root.where else twin.text for twin in twins),
        parting=tuple(dict.fromkeys((*named, *(twin.text for twin in twins)))),
    )


def _narrow(coded: CodedColumns, settings: ExplainSettings) -> CodedColumns:
    """The columns that the tree may use: those with fewest missing values, in their order."""
    n = len(coded.columns)
    if n <= settings.most_columns:
        return coded
    gone = (coded.codes == coded.width - 1).sum(axis=1)
    kept = np.sort(np.argsort(gone, kind="stable")[: settings.most_columns])
    return CodedColumns(
        tuple(coded.columns[k] for k in kept),
        coded.codes[kept],
        coded.width,
        coded.numeric[kept],
        tuple(coded.low[k] for k in kept),
        tuple(coded.high[k] for k in kept),
        tuple(coded.levels[k] for k in kept),
        coded.askable[kept],
    )


def _twins(
    coded: CodedColumns, tree: Node, affected: npt.NDArray[np.bool_], settings: ExplainSettings
) -> tuple[Column, ...]:
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
    twins: dict[tuple[str, str], Column] = {}
    for number, column in enumerate(coded.columns):
        if (column.where, column.key) == (root.where, root.key) or found.gain[number, 0] <= 0:
            continue
        split = Split(number, int(found.cut[number, 0]), bool(found.missing_left[number, 0]))
        if agreement(base, goes_left(coded, split, rows)) >= _TWIN:
            twins.setdefault((column.where, column.key), replace(column, aggregate=""))
    return tuple(twins.values())


def _sentence(table: FeatureTable, found: _Judged, standing: tuple[str, ...]) -> str:
    """What a reader needs to know, in one or two sentences."""
    changed = ""
    if table.identifiers:
        named = [f"{i.key}{_at(i.where)} {i.before} → {i.after}" for i in table.identifiers]
        more = f" and {len(named) - 2} more" if len(named) > 2 else ""
        changed = f" Changed with the period: {'; '.join(named[:2])}{more}."
    if standing:
        verb = "parts" if len(standing) == 1 else "part"
        changed += f" {', '.join(standing[:_TWINS_SHOWN])} {verb} such requests in the reference, too."
    if found.reason == "":
        return _said(table, found) + changed
    auc = "" if found.auc is None else f" (AUC {found.auc:.2f})"
    contrast = table.contrast
    why = {
        "no-parameters": "there is no parameter or host to compare",
        "too-few": f"{contrast.n_affected} and {contrast.n_others} requests are too few",
        "not-predictive": f"no attribute tells them apart{auc}",
        "unstable": f"the answer changes from sample to sample{auc}",
    }[found.reason]
    if table.identifiers and found.reason in ("not-predictive", "no-parameters"):
        return f"{changed.strip()} Beyond that no attribute tells them apart{auc}."
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
        f" {', '.join(twins)}{more} part{'s' if len(found.twins) == 1 else ''} them alike." if twins else ""
    )
    shares = (
        f"{_percent(best.n_affected / n1)} of the {table.contrast.affected}, "
        f"{_percent(best.n_others / n0)} of the {table.contrast.others}"
    )
    return f"{' and '.join(best.conditions)}: {shares} (AUC {found.auc:.2f}).{also}"


def _percent(share: float) -> str:
    if 0 < share < 0.01:
        return "under 1 %"
    return "over 99 %" if 0.99 < share < 1 else f"{100 * share:.0f} %"


def _at(where: str) -> str:
    return "" if where == REQUEST else f" at {where}"
