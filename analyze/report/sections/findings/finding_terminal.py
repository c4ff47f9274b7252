"""Findings on a terminal: a few lines each, within its width."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from analyze.report import wording
from analyze.report.sections.findings import finding_words as words
from schemas.report.findings import Finding, FindingsSection

LISTED = 5
"""Findings that are told; the page and the tables have the rest."""
ID_CHARS = 40
"""Longer ids of requests are clipped."""
CHAIN = 2
"""Consequences told."""
_INDENT = (0, 0, 0, 3)


def print_findings(section: FindingsSection, console: Console) -> None:
    """Findings by rank, then what made none in one line."""
    for finding in section.findings[:LISTED]:
        console.print()
        console.print(Text(wording.visible(f"{finding.rank}. {finding.title}"), style="bold"))
        for line in _lines(finding):
            console.print(Padding(line, _INDENT, expand=False))
        if finding.views:
            # One line whatever the width, so that it can be copied.
            console.print(_told("   More", words.further(finding.views)), soft_wrap=True)
    left = section.findings_total - min(len(section.findings), LISTED)
    if left:
        console.print(Text(f"\nand {wording.counted(left, 'more finding')}", style="dim"))
    rest = words.rest_sentence(section.rest)
    if rest:
        console.print()
        console.print(Text(wording.visible(rest), style="dim"))


def _lines(finding: Finding) -> list[Text]:
    """What stands below a title."""
    lines = [
        Text(f"{words.moved(finding)} ({words.interval(finding)}), {words.part_sentence(finding)}"),
        Text(f"{words.affected(finding)}, {words.sureness(finding)}", style="dim"),
    ]
    lines += [Text(wording.visible(words.factor_sentence(factor))) for factor in finding.factors[:1]]
    if finding.explanation is not None:
        lines.append(_told("What differs", words.differs(finding.explanation)))
    if finding.chain:
        lines.append(_told("Then", "; ".join(step.rstrip(".") for step in finding.chain[:CHAIN])))
    example = next((example for example in finding.examples if example.sample == "problem"), None)
    look = [finding.suspect] if finding.suspect else []
    if example is not None:
        look.append(f"{wording.clip(example.request_id, ID_CHARS)} ({example.what})")
    if look:
        lines.append(_told("Look at", ", ".join(look)))
    return lines


def _told(name: str, text: str) -> Text:
    return Text(f"{name}: ", style="dim").append(wording.visible(text), style="not dim")
