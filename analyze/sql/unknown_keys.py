"""A filter that keeps nothing because a key of it does not exist is told so, with the keys there are."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Final

from analyze.scope import LakePeriod
from analyze.sql.connection import arrays, statement
from schemas.errors import PeriodError
from schemas.periods import FLOW_KEYS, Operator

NAMED: Final = 6
"""Keys that the error names."""


def refuse_unknown_keys(found: LakePeriod) -> None:
    """Raise PeriodError where the period's filter asks for a parameter that no request of its windows has.

    Not for `!=`, which such a request fulfils. The windows have parameters. Reads the narrow column `key`.
    """
    where = found.period.where
    asked = (
        []
        if where is None
        else [c for c in where.conditions if c.is_parameter and c.operator is not Operator.NE]
    )
    if not asked:
        return
    sql = statement("parameter_keys")
    keys = [
        str(key) for key in arrays(found, found.params, sql, {"params": [*map(str, found.params)]})["key"]
    ]
    for condition in asked:
        if condition.key not in keys:
            raise PeriodError(_told(condition.key, keys), remedy=f"Other keys: {', '.join(FLOW_KEYS)}.")


def _told(key: str, keys: list[str]) -> str:
    """The keys that look most like `key` first."""
    nearest = sorted(keys, key=lambda other: -_likeness(key, other))[:NAMED]
    rest = len(keys) - len(nearest)
    return (
        f"No request of these windows has a parameter '{key}'. "
        f"There are: {', '.join(nearest)}{f' and {rest} more' if rest else ''}."
    )


def _likeness(key: str, other: str) -> float:
    return SequenceMatcher(None, key.lower(), other.lower()).ratio()
