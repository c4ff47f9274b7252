"""Attributes that say which period it is: builds, versions, configurations, pods (ALGORITHMS D.3)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from analyze.explain.attribute_column import REQUEST, Column
from analyze.explain.chosen_requests import ChosenRequests
from analyze.explain.explain_settings import IDENTIFIER_NAMES
from analyze.explain.request_columns import REACHES, TYPE
from schemas.arrays import F8
from schemas.report.explanations import ChangedIdentifier

_MOST_LEVELS: Final = 20
_LEAST_KNOWN: Final = 0.9
"""Share of the requests that pass the node whose value must be known."""
_LEAST_REQUESTS: Final = 5
"""Of each period, with a value."""
_ONE_VALUE: Final = ("", "first", "last", "mode", "min", "max")


def changed_identifiers(
    columns: Sequence[Column], chosen: ChosenRequests
) -> dict[tuple[str, str], ChangedIdentifier]:
    """Those of the columns whose values part the periods by construction, by (where, key).

    Words that are all others in the problem than in the reference (a version, a configuration, the pods of a
    deployment), and numbers of such a name with one value a period. A quantity that changed, a size of 16384
    that is 4096 now, is none. Looked for in all chosen requests, whatever their class: a value that only
    the affected have is an explanation.
    """
    fields: dict[tuple[str, str], list[Column]] = {}
    for column in columns:
        if column.aggregate in _ONE_VALUE:
            fields.setdefault((column.where, column.key), []).append(column)
    found: dict[tuple[str, str], ChangedIdentifier] = {}
    for field, of_field in fields.items():
        if field == (REQUEST, TYPE) or field[1].startswith(REACHES):
            continue
        pairs = [_values(column, chosen) for column in of_field]
        if all(pair is not None for pair in pairs) and pairs[0] is not None:
            before, after = (_said(of_field[0], values) for values in pairs[0])
            found[field] = ChangedIdentifier(where=field[0], key=field[1], before=before, after=after)
    return found


def _values(column: Column, chosen: ChosenRequests) -> tuple[F8, F8] | None:
    """Values before and after, where they have none in common and are few; None for what is no identifier."""
    known = ~np.isnan(column.values)
    passes = np.ones_like(known) if column.passes is None else column.passes
    periods = np.unique(chosen.sample)
    if len(periods) != 2:
        return None
    if column.levels is None and not re.search(IDENTIFIER_NAMES, column.key, re.IGNORECASE):
        return None
    sides: list[F8] = []
    for period in periods:
        mine = chosen.sample == period
        values = column.values[known & mine]
        if len(values) < max(_LEAST_REQUESTS, _LEAST_KNOWN * (passes & mine).sum()):
            return None
        sides.append(np.unique(values))
    most = 1 if column.levels is None else _MOST_LEVELS
    if max(len(side) for side in sides) > most or np.intersect1d(sides[0], sides[1]).size:
        return None
    return sides[0], sides[1]


def _said(column: Column, values: F8) -> str:
    words = [f"{v:g}" if column.levels is None else column.levels[int(v)] for v in values]
    return ", ".join(words[:3]) + (f" and {len(words) - 3} more" if len(words) > 3 else "")
