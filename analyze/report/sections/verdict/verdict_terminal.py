"""The verdict on a terminal: why, what is missing, and what else to know; a few lines."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from analyze.report import wording
from analyze.report.sections.verdict import verdict_words as words
from schemas.report.accounts import VerdictSection


def print_verdict(section: VerdictSection, console: Console) -> None:
    """The outcome and its reasons; then what is open and, where nothing was found, what would have been."""
    line = Text(wording.visible(f"{words.outcome(section)}. "), style="bold")
    console.print(line.append(wording.visible(" ".join(section.reasons)), style="not bold"))
    told = [*words.gaps(section)]
    if section.outcome in ("unchanged", "cannot-tell", "not-explained"):
        told += [words.equivalent(section), words.visible_sentence(section)]
    told.append(section.calibration)
    if any(told):
        console.print(Text(wording.visible(" ".join(filter(None, told))), style="dim"))
