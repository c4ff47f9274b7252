"""The verdict on a terminal: why, what is missing, and what else to know; a few lines."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from analyze.report import wording
from analyze.report.sections.verdict import verdict_words as words
from schemas.report.accounts import VerdictSection


def print_verdict(section: VerdictSection, console: Console) -> None:
    """Reasons, gaps, quality and, where nothing was found, what would have been."""
    if section.reasons:
        console.print(Text(wording.visible(" ".join(section.reasons))))
    told = [*words.gaps(section)]
    if section.outcome in ("unchanged", "cannot-tell", "not-explained"):
        told += [words.equivalent(section), words.visible_sentence(section)]
    told.append(section.calibration)
    if any(told):
        console.print(Text(wording.visible(" ".join(filter(None, told))), style="dim"))
