"""Diverging components on a terminal, within its width."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from analyze.report import wording
from analyze.report.sections.distalyze import distalyze_words as words
from schemas.report.networks import DistalyzeSection, NetworkComponent

LISTED = 3
"""Components told; the page has more."""
VARIABLES = 8
_INDENT = (0, 0, 0, 3)


def print_distalyze(section: DistalyzeSection, console: Console) -> None:
    """Classes, components by rank with their chains, then the variables that diverge most."""
    for study in section.studies:
        console.print(Text(wording.visible(words.study_line(study, section)), style="dim"))
    for component in section.components[:LISTED]:
        _component(component, console)
    left = section.components_total - min(len(section.components), LISTED)
    if left:
        console.print(Text(f"\nand {wording.counted(left, 'more component')}", style="dim"))
    if section.variables:
        console.print()
        console.print(Text("Variables that diverge most", style="bold"))
    for variable in section.variables[:VARIABLES]:
        line = f"{variable.component}/{variable.name}" if variable.component else variable.name
        told = Text(wording.visible(line)).append(
            wording.visible(
                f"  {words.type_name(variable.feature_type)} {words.moved(variable)}"
                f" (t {wording.significant(variable.t)})"
            ),
            style="dim",
        )
        console.print(Padding(told, _INDENT, expand=False))


def _component(component: NetworkComponent, console: Console) -> None:
    console.print()
    start = words.beginning(component)
    title = start.text if start is not None else component.root
    console.print(Text(wording.visible(f"{component.rank}. {title}"), style="bold"))
    where = f"{component.root}: " if component.root else ""
    lines = [Text(wording.visible(f"{where}{words.told_as(component)}"), style="dim")]
    lines += [
        Text("↓ " if place else "  ").append(wording.visible(line))
        for place, line in enumerate(words.chain_lines(component))
    ]
    if component.after:
        lines.append(
            Text("Just before: ", style="dim").append(wording.visible(component.after), style="not dim")
        )
    if component.trivial:
        more = component.trivial_total - len(component.trivial)
        told = ", ".join(component.trivial[:2]) + (
            f" and {component.trivial_total - 2} more" if more or len(component.trivial) > 2 else ""
        )
        lines.append(Text("Says the same as response time: ", style="dim").append(wording.visible(told)))
    for line in lines:
        console.print(Padding(line, _INDENT, expand=False))
