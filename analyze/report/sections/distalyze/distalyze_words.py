"""What is said about diverging variables and the components they are in."""

from __future__ import annotations

from typing import Final

from analyze.report import wording
from analyze.report.wording import NBSP
from schemas.report.networks import (
    DistalyzeSection,
    DivergentVariable,
    NetworkComponent,
    NetworkVariable,
    Quantity,
    StudyRow,
)

_TYPE: Final = {
    "Count": "number of occurrences",
    "First.Absolute": "first time",
    "Median.Absolute": "median time",
    "Last.Absolute": "last time",
    "First.Relative": "first time, relative",
    "Median.Relative": "median time, relative",
    "Last.Relative": "last time, relative",
    "Minimum": "minimum",
    "Mean": "mean",
    "Maximum": "maximum",
    "Final": "final value",
    "One-fourth.Absolute": "value at ¼ of the time",
    "Half.Absolute": "value at ½ of the time",
    "Three-fourth.Absolute": "value at ¾ of the time",
    "One-fourth.Relative": "value at ¼ of the readings",
    "Half.Relative": "value at ½ of the readings",
    "Three-fourth.Relative": "value at ¾ of the readings",
    "Presence": "presence",
}


def type_name(feature: str) -> str:
    """A feature type in words."""
    return _TYPE.get(feature, feature)


def types_named(component: NetworkComponent) -> str:
    """Its feature types: `first time (also median, last)`."""
    first, *others = (type_name(feature) for feature in component.feature_types)
    return f"{first} (the same: {', '.join(others)})" if others else first


def value(quantity: Quantity, number: float | None) -> str:
    """`12.3 ms`, `4.1 %`, `3`."""
    if number is None:
        return "–"
    if quantity == "us":
        return wording.duration(number)
    if quantity == "share":
        return wording.percent(number)
    return wording.significant(number)


def moved(variable: NetworkVariable | DivergentVariable) -> str:
    """`12.3 ms → 1.01 s`."""
    if variable.quantity == "us":
        return wording.moved_duration(variable.before, variable.after)
    return f"{value(variable.quantity, variable.before)} → {value(variable.quantity, variable.after)}"


def beginning(component: NetworkComponent) -> NetworkVariable | None:
    """The variable that the chain begins with, farthest upstream; None: nothing stands out."""
    return component.variables[component.chain[-1]] if component.chain else None


def look_first(component: NetworkComponent, section: DistalyzeSection) -> str:
    """One sentence: where the chain begins, by how much, what comes before it."""
    start = beginning(component)
    if start is None:
        return f"{wording.counted(component.variables_total - 1, 'variable')} diverge with response time."
    where = f" of {component.root}" if component.root else ""
    kind = "Requests" if section.instances == "request" else f"{section.instances.capitalize()}s"
    told = (
        f"{kind}{where}, {section.class1} against {section.class0}: look first at {start.text} "
        f"({type_name(component.feature_types[0])} {moved(start)})"
    )
    return told + (f"; what comes before it, {component.after}, moved much less." if component.after else ".")


def chain_lines(component: NetworkComponent) -> list[str]:
    """The chain from where it began to P, a line a variable."""
    return [
        f"{component.variables[place].text}: {moved(component.variables[place])}"
        for place in reversed(component.chain)
    ]


def told_as(component: NetworkComponent) -> str:
    """`12 variables, events by first time; score 3.1`."""
    return (
        f"{wording.counted(component.variables_total - 1, 'variable')} of the "
        f"{'events' if component.log_type == 'event' else 'states'} by {types_named(component)}; "
        f"score {wording.significant(component.own_score)}"
    )


def also_by(component: NetworkComponent) -> str:
    """`mean, final value`; empty where no other feature type tells the same."""
    return ", ".join(type_name(feature) for feature in component.also)


def study_line(study: StudyRow, section: DistalyzeSection) -> str:
    """The classes of a root type in numbers."""
    return (
        f"{study.root or 'All'}: {wording.count(study.instances0)} {section.class0} "
        f"({wording.duration(study.mean0_us)}), {wording.count(study.instances1)} {section.class1} "
        f"({wording.duration(study.mean1_us)}); {wording.counted(study.events, 'event variable')}, "
        f"{wording.counted(study.states, 'state variable')}" + weights(study)
    )


def weights(study: StudyRow) -> str:
    """What is said of a heavy tail; empty without one."""
    if study.weighted:
        return f"; heavy tail, weighed by 2^(time / {wording.duration(study.half_us)})"
    if study.heavy:
        return f"; heavy tail ({wording.percent(study.tail_share)} outside of mean ± 3{NBSP}sigma)"
    return ""
