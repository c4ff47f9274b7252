"""Display of the section of DISTALYZER as blocks: divergent variables, and their networks around the response
time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from analyze.methods.distalyze.features import FeatureType
from analyze.report import blocks as b
from analyze.report import wording
from analyze.report.drawing.charts import spread
from analyze.report.drawing.network import draw_network
from analyze.report.section_view import SectionView
from schemas.report.networks import (
    DistalyzeSection,
    DivergentVariable,
    NetworkComponent,
    NetworkVariable,
    Quantity,
    StudyRow,
)

OPEN: Final = 2
"""Number of components whose cards are unfolded."""
PRINTED: Final = 8
"""Maximum number of variables on a terminal."""

STYLE: Final = """
.network .var rect { fill: var(--box); stroke: var(--quiet); stroke-width: 1.2; }
.network .var.up rect { stroke: var(--after); fill: var(--after); }
.network .var.down rect { stroke: var(--before); fill: var(--before); }
.network .var.d0 rect { fill: var(--box); fill-opacity: 1; stroke: var(--quiet); }
.network .d1 rect { fill-opacity: 0.1; }
.network .d2 rect { fill-opacity: 0.2; }
.network .d3 rect { fill-opacity: 0.32; }
.network .d4 rect { fill-opacity: 0.48; }
.network .var.p rect { fill: var(--panel); stroke: var(--ink); stroke-width: 2; }
.network .var.chained rect { stroke-width: 3; }
.network .where { font-size: 11px; fill: var(--soft); }
.network .what { font-weight: 600; }
.network .latency { font-size: 11px; }
.network .d3 .where, .network .d4 .where { fill: var(--ink); }
.network .dep path { fill: none; stroke: var(--quiet); opacity: 0.45; }
.network .dep.tree path { opacity: 0.8; }
.network .dep.only path { stroke-dasharray: 7 5; }
.network .dep.chained path { stroke: var(--link); opacity: 1; }
.network .dep path.head { fill: var(--quiet); stroke: none; stroke-dasharray: none; opacity: 1; }
.network .dep.chained path.head { fill: var(--link); }
.spread path.before { fill: var(--before-fill); stroke: var(--before); }
.spread path.after { fill: none; stroke: var(--after); stroke-width: 2; }
.spread .tick.first { text-anchor: start; }
.spread .tick.last { text-anchor: end; }
"""


def distalyze_blocks(section: DistalyzeSection) -> b.Blocks:
    """Display of the section as blocks: classes, components by rank with their chains, then the most
    divergent variables."""
    s = section
    note = f"{s.class1} against {s.class0}"
    title = "What diverges, and what response time depends on"
    return (b.Part(title, tuple(_blocks(s)), note=note, anchor="distalyze"),)


def _blocks(s: DistalyzeSection) -> Iterator[b.Block]:
    found = f"{wording.count(s.significant)} of {wording.count(s.features)} features differ (Bonferroni, "
    found += f"{wording.percent(s.alpha)}), {wording.count(s.significant_bh)} by false discovery rate"
    yield b.Only("page", (b.Text((b.sides(s.class0, s.class1), f" · {found}"), "dim"),))
    yield b.Grid("Classes", _studies(s), s.studies)
    if not s.components:
        yield b.Text("No variable that response time depends on differs between the two.")
    ranked: list[b.Block] = [b.Text(_SCORE)]
    if any(study.heavy and not study.weighted for study in s.studies):
        heavy = "Heavy: more than 1.1 % of the instances lie outside of mean ± 3 sigma; "
        ranked.append(b.Text((heavy, b.code("--set tail_weights=on"), " counts them by what they cost.")))
    if s.components:
        yield b.Details("How components are ranked", tuple(ranked))
    yield from (_component(component, s) for component in s.components)
    if len(s.components) < s.components_total:
        shown = f"{len(s.components)} of {wording.count(s.components_total)} components"
        yield b.Text(f"{shown}; the table distalyze_dependencies beside this page has all.", "dim")
    if s.variables:
        table = b.Grid(
            "Variables that diverge most",
            _variables(s),
            s.variables,
            s.variables_total,
            "distalyze_features",
            printed=PRINTED,
        )
        yield b.Part("Variables that diverge most", (table,))


_SCORE: Final = (
    "Score: how far a component's variables differ between the two, each times how much it says about the "
    "next on the way to response time, added up. It orders components of events and of values, which take "
    "turns; own times come before the times of events, which follow them. Its size means nothing by itself."
)


def _studies(s: DistalyzeSection) -> tuple[b.Column, ...]:
    what = "Requests" if s.instances == "request" else f"{s.instances.capitalize()}s"
    return (
        b.Column("", what, "name", lambda study: study.root or "all"),
        b.Column("instances0", s.class0, "count"),
        b.Column("instances1", s.class1, "count"),
        b.Column("mean{}_us", "Response time", "us"),
        b.Column("share", "Of the difference", "share", far=1),
        b.Column("", "Variables", "count", lambda study: study.events + study.states, far=2),
        b.Column("", "Tail", "text", _tail, far=1),
    )


def _tail(study: StudyRow) -> str:
    if study.weighted:
        return f"weighed by 2^(t / {wording.duration(study.half_us)})"
    return f"heavy ({wording.percent(study.tail_share)})" if study.heavy else ""


def _component(component: NetworkComponent, s: DistalyzeSection) -> b.Part:
    start = beginning(component)
    name = wording.clip(start.text if start is not None else component.root, 120)
    return b.Part(
        (f"{component.rank}. {name} ", "" if start is None else b.dim(moved(start))),
        tuple(_inside(component, s)),
        note=b.strong(component.root) if component.root else "",
        anchor=f"dc{component.rank}",
        look="card",
        open=component.rank <= OPEN,
    )


def _inside(component: NetworkComponent, s: DistalyzeSection) -> Iterator[b.Block]:
    c = component
    if c.after:
        yield b.Text((b.dim("Just before: "), c.after, b.dim(", moved much less.")))
    chain = [c.variables[place] for place in reversed(c.chain)]
    if chain:
        steps = [(wording.clip(v.text, 120), " ", b.strong(moved(v))) for v in chain]
        yield b.Part("What to look at first", (b.Items(steps, ordered=True),))
    caption = (
        "Shade: how far a variable diverges (warm: more, cool: less). Width of a line: how many instances "
        "one depends on the other in. Arrow: first always before second. Dashed: not so among "
        f"{s.class0} alone." + (" Learned from both together." if c.pooled else "")
    )
    if len(c.variables) < c.variables_total:
        caption += f" {len(c.variables)} of {wording.count(c.variables_total)} variables drawn."
    title = f"Component {c.rank}: {described(c)}"
    yield b.Drawing(draw_network(c, moved, title), caption, wide=f"Network of component {c.rank}")
    table = b.Grid(f"Variables of component {c.rank}", _distributions(s), c.variables, tone=_tone)
    yield b.Details("Variables and their two distributions", (table,))
    also = ", ".join(FeatureType(feature).words for feature in c.also)
    types = f"{described(c)}{f'; also by {also}' if also else ''}. {score_sentence(c)}"
    yield b.Details("Score and feature types", (b.Text(types),))
    if c.trivial:
        left = c.trivial_total - len(c.trivial)
        more = f" and {wording.count(left)} more" if left > 0 else ""
        yield b.Text(f"Says the same as response time, so left out: {', '.join(c.trivial)}{more}.", "dim")


def _tone(variable: NetworkVariable) -> str:
    return "changed" if variable.divergence > 0 else ""


def _distributions(s: DistalyzeSection) -> tuple[b.Column, ...]:
    return (
        b.Column("text", "Variable", "name"),
        b.Column("", f"{s.class0} → {s.class1}", "figure", lambda v: moved(v)),
        b.Column("t", "t", "number", far=1),
        b.Column("p", "p", "p", far=1),
        b.Column("", "Differs", "text", _differs, far=1),
        b.Column("", "Distributions", "bar", partial(_spread, s)),
    )


def _differs(variable: NetworkVariable) -> str:
    return "yes" if variable.significant else "by FDR only" if variable.q_significant else "no"


def _variables(s: DistalyzeSection) -> tuple[b.Column, ...]:
    return (
        b.Column("", "Variable", "text", lambda v: _variable(v, len(s.studies) > 1)),
        b.Column("log_type", "Log", far=2),
        b.Column("", "Most by", "text", lambda v: FeatureType(v.feature_type).words, far=2),
        b.Column("", f"{s.class0} → {s.class1}", "figure", lambda v: moved(v)),
        b.Column("t", "t", "number", far=1),
        b.Column("features", "Features", "count", far=3),
        b.Column("strength", "Strength", "number", far=3, about="Sum of |t| over its significant features"),
    )


def _variable(variable: DivergentVariable, several: bool) -> b.Words:
    where: b.Words = (b.strong(variable.component), "/") if variable.component else ""
    root = b.dim(f" {wording.clip(variable.root, 60)}") if several else ""
    return (where, wording.clip(variable.name, 96), root)


def value(quantity: Quantity, number: float | None) -> str:
    """Text of a value: `12.3 ms`, `4.1 %`, `3`; `–` for None."""
    if number is None:
        return "–"
    if quantity == "us":
        return wording.duration(number)
    if quantity == "share":
        return wording.percent(number)
    return wording.significant(number)


def moved(variable: NetworkVariable | DivergentVariable) -> str:
    """Text of a variable's value in both classes: `12.3 ms → 1.01 s`, `1 → 0.111 times`."""
    if variable.quantity == "us":
        return wording.moved_duration(variable.before, variable.after)
    if variable.quantity == "share" and variable.before is not None and variable.after is not None:
        return " → ".join(wording.percents(variable.before, variable.after))
    times = " times" if variable.quantity == "count" else ""
    return f"{value(variable.quantity, variable.before)} → {value(variable.quantity, variable.after)}{times}"


def beginning(component: NetworkComponent) -> NetworkVariable | None:
    """Variable at the end of the chain farthest from the response time; None without a chain."""
    return component.variables[component.chain[-1]] if component.chain else None


def described(component: NetworkComponent) -> str:
    """Text of a component's size and feature type: `12 variables of the events by first time`."""
    return (
        f"{wording.counted(component.variables_total - 1, 'variable')} of the "
        f"{'events' if component.log_type == 'event' else 'states'} by "
        f"{FeatureType(component.feature_types[0]).words}"
    )


def score_sentence(component: NetworkComponent) -> str:
    """Sentence on the score of a component, and on feature types with equal values: `Score 3.1.

    The same by: median time.`
    """
    others = ", ".join(FeatureType(feature).words for feature in component.feature_types[1:])
    return f"Score {wording.significant(component.own_score)}.{f' The same by: {others}.' if others else ''}"


def look_first(component: NetworkComponent, section: DistalyzeSection) -> str:
    """Sentence on the variable of the chain farthest from the response time: its change, and the variable
    just before it."""
    start = beginning(component)
    if start is None:
        return f"{wording.counted(component.variables_total - 1, 'variable')} diverge with response time."
    kind = f"{section.instances}s"
    where = f" of {component.root}" if component.root else ""
    sides = f"{section.class1} against {section.class0}"
    text = f"Look first at {start.text}: {moved(start)} ({kind}{where}, {sides})"
    return text + (f"; {component.after}, just before it, moved much less." if component.after else ".")


def _spread(section: DistalyzeSection, variable: NetworkVariable) -> b.Words:
    """Drawing of a variable's distributions in both classes; empty if no instance has the variable."""
    of = variable.distribution
    if of is None:
        return ""
    absent = f"absent {wording.count(of.absent0)} · {wording.count(of.absent1)}"
    return spread(
        of.edges,
        (of.counts0, of.counts1),
        log=of.log,
        title=f"{variable.text}: {section.class0} filled, {section.class1} outlined",
        worded=lambda number: value(variable.quantity, number),
        caption=absent if of.absent0 or of.absent1 else "",
    )


DISTALYZE: Final = SectionView(DistalyzeSection, distalyze_blocks, style=STYLE)
