"""Print a report on a terminal of 80 columns or more (rich).

Text is printed as text, never as rich markup; control characters in it are made visible.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text as RichText

from analyze.report import wording
from analyze.report.blocks import (
    Beside,
    Block,
    Blocks,
    Column,
    Facts,
    Grid,
    Items,
    Only,
    Part,
    Styled,
    Text,
    Words,
    cell,
    mark,
    runs,
)
from analyze.report.section_view import Views, first_screen, opening, warnings
from analyze.report.text_table import Heading, Kind, styled_lines
from schemas.report.report import Report

LEAST_NAME: Final = 24
"""Minimum width of a name column in characters; numeric columns are dropped before names get narrower."""
_LEAST_BEHIND: Final = 12
"""Minimum width, characters, of the dimmed text that follows a name; with less room the dimmed text is
dropped."""
_INDENT: Final = 3
_WORD: Final = re.compile(r"[^ \n]* *\n?")
_STYLE: Final = {
    "strong": "bold",
    "dim": "dim",
    "span": "dim",
    "tag": "dim",
    "warning": "yellow",
    "worse": "red",
    "better": "blue",
}


def print_report(report: Report, views: Views, console: Console, *, whole: bool = True) -> bool:
    """Print warnings, the first screen and data-quality notes; whole: also the verdict and the sections.

    A report without a first screen begins with headline and samples, and is always printed whole. Returns
    False if verdict and sections were left out. Raises KeyError for a section without a view.
    """
    for warning in warnings(report, views):
        _put(_text(f"! {warning}", "bold yellow"), console)
    screen = first_screen(report, views)
    if screen is not None:
        _put(_text(screen.headline, "bold"), console)
        print_blocks(screen.blocks, console)
    else:
        first, second = opening(report, views)
        _put(_text(first, "bold"), console)
        if second:
            _put(_text(second), console)
        for sample in report.samples:
            where = f" where {sample.where}" if sample.where else ""
            requests = wording.counted(sample.requests, "request")
            _put(_text(f"{sample.name.capitalize()} {sample.text}{where}: {requests}", "dim"), console)
    for note in (note for note in report.notes if screen is None or note not in screen.said):
        _put(_text(f"! {note}", "yellow"), console)
    if screen is not None and not whole:
        return False
    if screen is not None:
        console.print()
    titles = {method.name: method.title for method in report.methods} if len(report.methods) > 1 else {}
    leading = {s.method: s for s in reversed(report.sections) if views[s.section].leads}
    for method in report.methods:
        title = f"{method.title}: " if titles else ""
        if method.name not in leading:
            if title or screen is not None:
                _put(_text(f"{title}{method.verdict.text}"), console)
            continue
        if title:
            _put(_text(title.strip()), console)
        lead = leading[method.name]
        print_blocks(views[lead.section].blocks(lead), console, lead=True)
    for section in report.sections:
        if section is leading.get(section.method):
            continue
        blocks = views[section.section].blocks(section)
        if section.method in titles and _says(blocks):
            _put(_text(f"\n{titles.pop(section.method)}", "bold underline"), console)
        print_blocks(blocks, console)
    return True


def print_blocks(blocks: Blocks, console: Console, indent: int = 0, *, lead: bool = False) -> None:
    """Print blocks, except blocks that only the page shows."""
    for block in blocks:
        _print(block, console, indent, lead=lead)


def _print(block: Block, console: Console, indent: int, *, lead: bool) -> None:
    if isinstance(block, Part):
        _part(block, console, indent, lead=lead)
    elif isinstance(block, Beside) or (isinstance(block, Only) and block.where == "terminal"):
        print_blocks(block.blocks, console, indent)
    elif isinstance(block, Text):
        if block.tone == "pre":  # one line whatever the width, so that it can be copied
            console.print(_text((" " * indent, block.words)), soft_wrap=True)
        else:
            _put(_text(block.words, _STYLE.get(block.tone, "")), console, indent)
    elif isinstance(block, Items):
        for number, item in enumerate(block.items, 1):
            mark = f"{number}." if block.ordered else "*"
            _put(_hanging(mark, _text(item), console.width - indent), console, indent)
    elif isinstance(block, Facts):
        _facts(block, console, indent)
    elif isinstance(block, Grid) and block.printed and block.rows:
        _put(_table(block, console.width - indent), console, indent)
        left = (len(block.rows) if block.total is None else block.total) - block.printed
        if left > 0:
            _put(_text(f"and {wording.count(left)} more", "dim"), console, indent)


def _says(blocks: Blocks) -> bool:
    """True if any block has content that a terminal shows."""
    return any(
        _says(block.blocks)
        if isinstance(block, Beside | Only)
        else isinstance(block, Part | Text | Items | Facts | Grid)
        for block in blocks
        if not isinstance(block, Only) or block.where == "terminal"
    )


def _part(part: Part, console: Console, indent: int, *, lead: bool) -> None:
    """Print a title with its note, then the part's blocks unless they are folded."""
    if part.open is None and not _says(part.blocks):
        return
    if not lead and (part.open is None or part.look == "card"):
        console.print()
    title = _text(part.title, "bold" if part.open is None or part.look == "card" else "")
    if part.note:
        title.append("  ").append(_text(part.note, "not bold dim"))
    _put(title, console, indent)
    if part.open is not False:
        print_blocks(part.blocks, console, indent + _INDENT * (part.look == "card"))


def _facts(facts: Facts, console: Console, indent: int) -> None:
    if facts.look == "table":
        width = max((cell_len(fact.name) for fact in facts.facts), default=0)
        for fact in facts.facts:
            name = fact.name.ljust(width + 1)
            style = _STYLE.get(fact.tone, "")
            _put(
                _hanging(name, _text(fact.words, style), console.width - indent - _INDENT),
                console,
                indent + _INDENT,
            )
        return
    lines = [_text((Styled(f"{mark(fact.name)} ", "dim"), fact.words)) for fact in facts.facts]
    if facts.look == "rows":
        for line in lines:
            _put(line, console, indent)
    elif lines:
        _put(RichText("; ").join(lines), console, indent)


def _hanging(mark: str, text: RichText, width: int) -> RenderableType:
    line = RichTable.grid(padding=(0, 1, 0, 0))
    line.add_column(no_wrap=True)
    line.add_column(overflow="fold")
    line.add_row(RichText(mark, style="dim"), _wrapped(text, width - len(mark) - 2))
    return line


def _put(shown: RenderableType, console: Console, indent: int = 0) -> None:
    if isinstance(shown, RichText):
        shown = _wrapped(shown, console.width - indent)
    console.print(_Trimmed(Padding(shown, (0, 0, 0, indent), expand=False) if indent else shown))


@dataclass(frozen=True, slots=True)
class _Trimmed:
    """Renderable that removes the trailing blanks which rich adds to lines, for output to files."""

    shown: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in console.render_lines(self.shown, options, pad=False):
            while line and not line[-1].text.rstrip(" "):
                line.pop()
            if line:
                line[-1] = Segment(line[-1].text.rstrip(" "), line[-1].style)
            yield from line
            yield Segment.line()


def _wrapped(text: RichText, width: int) -> RichText:
    """Break text at blanks into lines of at most `width` columns; rich would also break `4.07 s` at its
    no-break space. Longer words are broken by rich."""
    cuts, used = [], 0
    for word in _WORD.finditer(text.plain):
        size = cell_len(word[0].rstrip(" "))
        if used and used + size > width:
            cuts.append(word.start())
            used = 0
        used = 0 if word[0].endswith("\n") else used + cell_len(word[0])
    lines = text.divide(cuts)
    for line in lines:
        line.rstrip()
    return RichText("\n", style=text.style).join(lines)


def _text(words: Words, style: str = "", *, spans: bool = True) -> RichText:
    """Convert words to rich text. All text from outside reaches the terminal through this function."""
    text = RichText(style=style)
    for part in runs(words):
        if isinstance(part, Styled) and part.text and (spans or part.tone != "span"):
            before = " " if part.tone == "span" and text.plain else ""
            text.append(before + _visible(part.text), style=_STYLE.get(part.tone, ""))
    return text


def _visible(text: str) -> str:
    head = "\n" if text.startswith("\n") else ""
    return head + wording.visible(text.removeprefix("\n"))


def _table(table: Grid, width: int) -> Group:
    """Table within `width`: names are clipped, numbers are not; if little width is left for names, columns
    are dropped, highest `far` first, from the right."""
    rows = table.rows[: table.printed]
    columns = [c for c in table.filled if c.unit != "bar"]
    cells = {id(c): [_text(cell(c, row), spans=False) for row in rows] for c in columns}
    columns = [c for c in columns if any(cell.plain for cell in cells[id(c)])]
    name = min(columns, key=lambda c: (c.unit != "name", not c.is_left))
    widths = {id(c): max([len(c.label), *map(len, cells[id(c)])]) for c in columns}

    def room(kept: Sequence[Column]) -> int:
        return width - sum(widths[id(c)] + 1 for c in kept if c is not name) - 1

    while room(columns) < min(LEAST_NAME, widths[id(name)]):
        spare = [c for c in columns if c is not name]
        if not spare:
            break
        gone = max(reversed(spare), key=lambda c: c.far)
        columns = [c for c in columns if c is not gone]
    left = max(room(columns), 1)
    cells[id(name)] = [_clipped(text, left) for text in cells[id(name)]]
    labels = [wording.clip(c.label or table.label, left) if c is name else c.label for c in columns]
    headings = [
        Heading(label, Kind.EXACT if c.is_left else Kind.NUMBER)
        for c, label in zip(columns, labels, strict=True)
    ]
    tones = [table.tone(row) if table.tone is not None else "" for row in rows]
    styles = ["dim" if "sum" in tone else "" for tone in tones]
    return Group(*styled_lines(headings, [cells[id(c)] for c in columns], styles, head="dim"))


def _clipped(text: RichText, width: int) -> RichText:
    """Clip a name in the middle to `width` columns; if dimmed text (the caller) follows the name, that text
    is clipped first."""
    if len(text) <= width:
        return text
    behind = min((span.start for span in text.spans if span.style == _STYLE["dim"] and span.start), default=0)
    room = width - behind
    if not behind or room < 0:
        name = text.plain[:behind].rstrip() if behind else text.plain
        return RichText(wording.clip(name, width), style=text.style)
    rest = wording.clip(text.plain[behind:], room) if room >= _LEAST_BEHIND else ""
    return text[:behind].append(rest, style=_STYLE["dim"])
