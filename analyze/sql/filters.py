"""A parsed filter (`schemas.periods.Filter`) as SQL terms: text from a closed list, values bound.

Keys `root`, `status` and `duration` are columns of a flow; `host` and `component` hold for a flow if they
hold for any of its nodes; every other key is a parameter of any node. `!=` holds if no node has an equal
value, so a flow without the parameter passes. `<` and its like compare numbers with numeric parameters and
text with text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from schemas.periods import DURATION_KEY, Condition, Filter, Operator

_EQUALITIES: Final = (Operator.EQ, Operator.NE, Operator.IN)

# (subject, kind of test) -> term; @ is the number of the condition, which names its bound values.
_TERMS: Final[Mapping[tuple[str, str], str]] = {
    ("root", "equal"): "(root IN (SELECT unnest($texts_@)))",
    ("root", "<"): "(root < $text_@)",
    ("root", "<="): "(root <= $text_@)",
    ("root", ">"): "(root > $text_@)",
    ("root", ">="): "(root >= $text_@)",
    ("root", "like"): "(root LIKE $text_@)",
    ("status", "equal"): "(status IN (SELECT unnest($texts_@)))",
    ("status", "<"): "(status < $text_@)",
    ("status", "<="): "(status <= $text_@)",
    ("status", ">"): "(status > $text_@)",
    ("status", ">="): "(status >= $text_@)",
    ("status", "like"): "(status LIKE $text_@)",
    ("duration", "equal"): "(response_ns IN (SELECT unnest($numbers_@)))",
    ("duration", "<"): "(response_ns < $number_@)",
    ("duration", "<="): "(response_ns <= $number_@)",
    ("duration", ">"): "(response_ns > $number_@)",
    ("duration", ">="): "(response_ns >= $number_@)",
    ("host", "equal"): "(list_has_any(host, $texts_@))",
    ("host", "<"): "(len(list_filter(host, lambda name: name < $text_@)) > 0)",
    ("host", "<="): "(len(list_filter(host, lambda name: name <= $text_@)) > 0)",
    ("host", ">"): "(len(list_filter(host, lambda name: name > $text_@)) > 0)",
    ("host", ">="): "(len(list_filter(host, lambda name: name >= $text_@)) > 0)",
    ("host", "like"): "(len(list_filter(host, lambda name: name LIKE $text_@)) > 0)",
    (
        "component",
        "equal",
    ): "(category IN (SELECT category FROM component WHERE name IN (SELECT unnest($texts_@))))",
    ("component", "<"): "(category IN (SELECT category FROM component WHERE name < $text_@))",
    ("component", "<="): "(category IN (SELECT category FROM component WHERE name <= $text_@))",
    ("component", ">"): "(category IN (SELECT category FROM component WHERE name > $text_@))",
    ("component", ">="): "(category IN (SELECT category FROM component WHERE name >= $text_@))",
    ("component", "like"): "(category IN (SELECT category FROM component WHERE name LIKE $text_@))",
    ("text", "equal"): (
        "(request IN (SELECT request FROM parameter WHERE key = $key_@"
        " AND (text IN (SELECT unnest($texts_@)) OR num IN (SELECT unnest($numbers_@)))))"
    ),
    (
        "text",
        "<",
    ): "(request IN (SELECT request FROM parameter WHERE key = $key_@ AND text < $text_@))",
    (
        "text",
        "<=",
    ): "(request IN (SELECT request FROM parameter WHERE key = $key_@ AND text <= $text_@))",
    (
        "text",
        ">",
    ): "(request IN (SELECT request FROM parameter WHERE key = $key_@ AND text > $text_@))",
    (
        "text",
        ">=",
    ): "(request IN (SELECT request FROM parameter WHERE key = $key_@ AND text >= $text_@))",
    (
        "text",
        "like",
    ): "(request IN (SELECT request FROM parameter WHERE key = $key_@ AND text LIKE $text_@))",
    (
        "number",
        "<",
    ): "(request IN (SELECT request FROM parameter WHERE key = $key_@ AND num < $number_@))",
    (
        "number",
        "<=",
    ): "(request IN (SELECT request FROM parameter WHERE key = $key_@ AND num <= $number_@))",
    (
        "number",
        ">",
    ): "(request IN (SELECT request FROM parameter WHERE key = $key_@ AND num > $number_@))",
    (
        "number",
        ">=",
    ): "(request IN (SELECT request FROM parameter WHERE key = $key_@ AND num >= $number_@))",
}


@dataclass(frozen=True, slots=True)
class Terms:
    """SQL terms to be joined by AND, and the values they bind."""

    text: tuple[str, ...]
    values: Mapping[str, object]
    uses_params: bool
    """Whether a term reads the params table."""


def filter_terms(filter_: Filter) -> Terms:
    """Terms of a filter over the relations of `matching_flows.sql`."""
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
    """(term, its values by name without the condition's number)."""
    if condition.key == DURATION_KEY and not condition.is_parameter:
        return _duration_term(condition)
    bound: dict[str, object] = {"key": condition.key} if condition.is_parameter else {}
    if condition.operator in _EQUALITIES:
        bound["texts"] = [_as_text(value) for value in condition.values]
        if condition.is_parameter:
            bound["numbers"] = _numbers(condition.values)
        term = _TERMS["text" if condition.is_parameter else condition.key, "equal"]
        return f"NOT {term}" if condition.operator is Operator.NE else term, bound
    value = condition.values[0]
    if not condition.is_parameter or isinstance(value, str):
        bound["text"] = _as_text(value)
        return _TERMS["text" if condition.is_parameter else condition.key, condition.operator.value], bound
    bound["number"] = value
    return _TERMS["number", condition.operator.value], bound


def _duration_term(condition: Condition) -> tuple[str, dict[str, object]]:
    """Response times are whole nanoseconds."""
    if condition.operator in _EQUALITIES:
        term = _TERMS[DURATION_KEY, "equal"]
        bound: dict[str, object] = {"numbers": _numbers(condition.values)}
        return f"NOT {term}" if condition.operator is Operator.NE else term, bound
    return _TERMS[DURATION_KEY, condition.operator.value], {"number": condition.values[0]}


def _as_text(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return str(int(value)) if value.is_integer() else repr(value)


def _numbers(values: Sequence[str | float]) -> list[float]:
    return [value for value in values if isinstance(value, float)]
