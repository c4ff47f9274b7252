"""A report for a terminal of 80 to 120 columns (rich)."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from analyze.report import wording
from analyze.report.section_view import Views, warnings
from schemas.report.report import Report


def print_report(report: Report, views: Views, console: Console) -> None:
    """Warnings, headline, samples, data-quality notes, verdict, and the sections that are for a terminal.

    Names are printed as text, never as rich markup; control characters in them are shown, not obeyed. Raises
    KeyError for a section without a view.
    """
    for warning in warnings(report, views):
        console.print(Text(wording.visible(f"! {warning}"), style="bold yellow"))
    console.print(Text(report.headline.sentence, style="bold"))
    for sample in report.samples:
        where = f" where {sample.where}" if sample.where else ""
        what = (
            f"{sample.name.capitalize()} {sample.text}{where}: {wording.counted(sample.requests, 'request')}"
        )
        console.print(Text(wording.visible(what), style="dim"))
    for note in report.notes:
        console.print(Text(wording.visible(f"! {note}"), style="yellow"))
    titles = {method.name: method.title for method in report.methods} if len(report.methods) > 1 else {}
    leading = {s.method: s for s in reversed(report.sections) if views[s.section].leads}
    for method in report.methods:
        told = leading.get(method.name)
        show = None if told is None else views[told.section].text
        if told is None or show is None:
            text = f"{method.title}: {method.verdict.text}" if titles else method.verdict.text
            console.print(Text(wording.visible(text)))
        else:
            if titles:
                console.print(Text(wording.visible(f"{method.title}:")))
            show(told, console)
    for section in report.sections:
        view = views[section.section]
        if view.text is not None and section is not leading.get(section.method):
            if section.method in titles:
                console.print(Text(f"\n{titles.pop(section.method)}", style="bold underline"))
            view.text(section, console)
