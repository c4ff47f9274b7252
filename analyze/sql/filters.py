"""Translate a parsed filter (`schemas.periods.Filter`) to SQL terms: text from a closed list, values bound.

Keys `root`, `kind`, `status`, `inner_status` and `duration` are columns of a flow; `host` and `component`
match a flow if any of its nodes matches, `error` if any failed node matches; every other key is a parameter
of any node. `!=` matches if no node has an equal value, so a flow without the parameter passes. `<` and the
other orderings compare numbers with numeric parameters and text with text.

A filter that matches nothing because one of its keys or names does not exist is refused; the error lists
existing ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from analyze.scope import LakePeriod
from analyze.sql.connection import arrays, statement
from schemas.errors import PeriodError
from schemas.messages import is_message
from schemas.periods import DURATION_KEY, FLOW_KEYS, Condition, Filter, Operator

_EQUALITIES: Final = (Operator.EQ, Operator.NE, Operator.IN)
# What a condition asks of: term of equal values, term of the other tests. @ is the number of the condition,
# which names its bound values; TEST stands for one of _TESTS.
_SUBJECTS: Final[Mapping[str, tuple[str, str]]] = {
    "root": ("(root IN (SELECT unnest($texts_@)))", "(root TEST $text_@)"),
    "status": ("(status IN (SELECT unnest($texts_@)))", "(status TEST $text_@)"),
    # Null where no inner node failed: said as `ok`, so that every condition is true or false.
    "inner_status": (
        "(coalesce(inner_status, 'ok') IN (SELECT unnest($texts_@)))",
        "(coalesce(inner_status, 'ok') TEST $text_@)",
    ),
    "kind": ("(kind IN (SELECT unnest($texts_@)))", "(kind TEST $text_@)"),
    "error": (
        "(list_has_any(error_class, $texts_@))",
        "(len(list_filter(error_class, lambda name: name TEST $text_@)) > 0)",
    ),
    "duration": ("(response_ns IN (SELECT unnest($numbers_@)))", "(response_ns TEST $number_@)"),
    "host": (
        "(list_has_any(host, $texts_@))",
        "(len(list_filter(host, lambda name: name TEST $text_@)) > 0)",
    ),
    "component": (
        "(category IN (SELECT category FROM component WHERE name IN (SELECT unnest($texts_@))))",
        "(category IN (SELECT category FROM component WHERE name TEST $text_@))",
    ),
    "text": (
        "(request IN (SELECT request FROM parameter WHERE key = $key_@"
        " AND (text IN (SELECT unnest($texts_@)) OR num IN (SELECT unnest($numbers_@)))))",
        "(request IN (SELECT request FROM parameter WHERE key = $key_@ AND text TEST $text_@))",
    ),
    "number": (
        "",
        "(request IN (SELECT request FROM parameter WHERE key = $key_@ AND num TEST $number_@))",
    ),
}
_TESTS: Final[Mapping[Operator, str]] = {
    Operator.LT: "<",
    Operator.LE: "<=",
    Operator.GT: ">",
    Operator.GE: ">=",
    Operator.LIKE: "LIKE",
}
_NAMED: Final = 6
"""Maximum number of keys or names that an error lists."""
_FLOWS: Final = "FROM read_parquet($flows, hive_partitioning = false)"
_NAMES: Final[Mapping[str, str]] = {
    "root": f"SELECT root AS name {_FLOWS}",
    "status": f"SELECT status AS name {_FLOWS}",
    "host": f"SELECT unnest(host) AS name {_FLOWS}",
    "component": "SELECT unnest(nodes).component AS name "
    "FROM read_parquet($structures, hive_partitioning = false)",
    "parameter": "SELECT text AS name FROM read_parquet($params, hive_partitioning = false) WHERE key = $key",
}
"""Filter key -> query for the key's values in a period."""


@dataclass(frozen=True, slots=True)
class Terms:
    """SQL terms, to be joined by AND, and the values bound in them."""

    text: tuple[str, ...]
    values: Mapping[str, object]
    uses_params: bool
    """True if a term reads the params table."""


def filter_terms(filter_: Filter) -> Terms:
    """Translate a filter to SQL terms over the relations of `matching_flows.sql`."""
    text = []
    values: dict[str, object] = {}
    uses_params = False
    for number, condition in enumerate(filter_.conditions):
        term, bound = _term(condition)
        uses_params = uses_params or "key" in bound
        text.append(term.replace("@", str(number)))
        values |= {f"{name}_{number}": value for name, value in bound.items()}
    return Terms(tuple(text), values, uses_params)


def _term(condition: Condition) -> tuple[str, dict[str, object]]:
    """Return (SQL term, bound values by name without the condition's number). Durations are whole
    nanoseconds.
    """
    of_duration = condition.key == DURATION_KEY and not condition.is_parameter
    subject = "text" if condition.is_parameter else condition.key
    bound: dict[str, object] = {"key": condition.key} if condition.is_parameter else {}
    if condition.operator in _EQUALITIES:
        if not of_duration:
            bound["texts"] = [_as_text(value) for value in condition.values]
        if of_duration or condition.is_parameter:
            bound["numbers"] = [value for value in condition.values if isinstance(value, float)]
        term, _ = _SUBJECTS[subject]
        return f"NOT {term}" if condition.operator is Operator.NE else term, bound
    value = condition.values[0]
    if of_duration or (condition.is_parameter and not isinstance(value, str)):
        bound["number"], subject = value, subject if of_duration else "number"
    else:
        bound["text"] = _as_text(value)
    _, term = _SUBJECTS[subject]
    return term.replace("TEST", _TESTS[condition.operator]), bound


def _as_text(value: str | float) -> str:
    return value if isinstance(value, str) else repr(value)


def refuse_unknown_keys(found: LakePeriod) -> None:
    """Raise PeriodError if the period's filter uses a parameter that no request of its windows has.

    Conditions with `!=` are not checked, as requests without the parameter match them. Requires windows with
    parameters. Reads only the column `key`.
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
            raise PeriodError(
                f"No request of these windows has a parameter '{condition.key}'. "
                f"{_nearest(condition.key, keys)}",
                remedy=f"Other keys: {', '.join(FLOW_KEYS)}.",
            )


def unknown_name(found: LakePeriod) -> str:
    """Sentence on a name in the period's filter that no request of its windows has; empty if there is none.

    Checks only conditions with literal texts (`=`, `in`). Reads one narrow column per condition.
    """
    where = found.period.where
    for condition in () if where is None else where.conditions:
        texts = [value for value in condition.values if isinstance(value, str)]
        key = "parameter" if condition.is_parameter else condition.key
        if condition.operator not in (Operator.EQ, Operator.IN) or not texts or key not in _NAMES:
            continue
        sources = {"flows": found.flows, "structures": found.structures, "params": found.params}
        values: dict[str, object] = {
            name: [*map(str, paths)] for name, paths in sources.items() if f"${name}" in _NAMES[key]
        }
        if condition.is_parameter:
            values["key"] = condition.key
        sql = statement("known_names").replace("/*names*/", _NAMES[key])
        files = [path for name, paths in sources.items() if name in values for path in paths]
        names = [str(name) for name in arrays(found, files, sql, values)["name"]]
        if key == "root" and any(map(is_message, texts)):
            return (
                f"'{texts[0]}' is a message: filters keep the requests that send it, such as "
                f"component = '{texts[0].partition('/')[0]}'."
            )
        if names and not set(texts).intersection(names):
            return (
                f"No request of these windows has {condition.key} = '{texts[0]}'. {_nearest(texts[0], names)}"
            )
    return ""


def _nearest(name: str, names: list[str]) -> str:
    """Sentence that lists the names most similar to `name`."""
    likeness = {other: SequenceMatcher(None, name.lower(), other.lower()).ratio() for other in names}
    nearest = sorted(names, key=lambda other: -likeness[other])[:_NAMED]
    rest = len(names) - len(nearest)
    return f"There are: {', '.join(nearest)}{f' and {rest} more' if rest else ''}."
