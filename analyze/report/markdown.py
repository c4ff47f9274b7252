"""Render a report as Markdown of about one screen, for pull requests and chat; tables in GitHub's dialect.

Same content as on the terminal, block by block, while there is room. Text is escaped, so that foreign names
become neither links, nor mentions, nor markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from analyze.report import blocks as b
from analyze.report import wording
from analyze.report.section_view import FirstScreen, Views, first_screen, opening, warnings
from schemas.report.report import Report

SCREEN: Final = 50
"""Maximum number of lines; the rest is only on the report's page."""
_WIDTH: Final = 110
"""Number of characters per line, assumed to estimate the height of wrapped text."""
_PERIODS: Final = (
    b.Column("name", "Period"),
    b.Column("text", "When"),
    b.Column("where", "Where"),
    b.Column("requests", "Requests", "count"),
    b.Column("mean_us", "Mean", "us"),
    b.Column("p99_us", "99th percentile", "us"),
    b.Column("failed_share", "Failed at the root", "share"),
)
_MARKUP: Final = re.compile(r"[\\`*\[\]<&|~$#]|(?<!\w)_|_(?!\w)|(?i:(?<=www)\.|:(?=//))")
_AT_START: Final = re.compile(r"^(\d+(?=[.)])|)([-+=>.)])")
_FLANK: Final = re.compile(r"\w")


def render_markdown(report: Report, views: Views, page: str = "") -> str:
    """Render the report; `page` is the address of its HTML page. Raises KeyError for a section without a
    view.
    """
    first = first_screen(report, views)
    opens, measured = opening(report, views)
    screen = [f"### {inline(opens if first is None else first.headline)}\n"]
    screen += [f"{_line(measured)}\n"] if first is None and measured else []
    screen += [] if first is None else [*_notes(report, views), *blocks_markdown(first.blocks)]
    room = SCREEN - sum(map(_rows, screen))
    end = f"Everything else: {_code(page)}\n" if page else ""
    room -= _rows(end) if end else 0
    rest: list[str] = []
    for part in _parts(report, views, first):
        room -= _rows(part)
        if room < 0:
            rest.append("*More than fits here is in the report.*\n")
            break
        rest.append(part)
    if first is not None and rest:  # GitHub folds it; others show it
        rest = ["<details><summary>Breakdown and tests</summary>\n", *rest, "</details>\n"]
    return "\n".join([*screen, *rest, *([end] if end else [])])


def blocks_markdown(blocks: b.Blocks, level: int = 4) -> Iterator[str]:
    """Yield blocks as Markdown paragraphs, each with its line end. level: heading level of titles."""
    for block in blocks:
        yield from _block(block, level)


def _parts(report: Report, views: Views, first: FirstScreen | None) -> Iterator[str]:
    if first is None:
        yield from _notes(report, views)
    yield from _table(b.Grid("Periods", _PERIODS, report.samples))
    leading = {s.method: s for s in reversed(report.sections) if views[s.section].leads}
    for method in report.methods:
        if len(report.methods) > 1:
            yield f"#### {inline(method.title)}\n"
        if method.name not in leading and (len(report.methods) > 1 or first is not None):
            yield f"{_line(method.verdict.text)}\n"
        for section in report.sections:
            if section.method == method.name:
                yield from blocks_markdown(views[section.section].blocks(section))


def _notes(report: Report, views: Views) -> Iterator[str]:
    for warning in (*warnings(report, views), *report.notes):
        yield f"> {inline(warning)}\n"


def _block(block: b.Block, level: int) -> Iterator[str]:
    if isinstance(block, b.Part):
        inner = [*blocks_markdown(block.blocks, min(level + 1, 6))] if block.open is not False else []
        if inner or block.open is not None:
            heading = (block.title, f" – {_plain(block.note)}" if block.note else "")
            is_title = block.open is None or block.look == "card"
            yield f"{'#' * level} {inline(heading)}\n" if is_title else f"{_line(heading)}\n"
        yield from inner
    elif isinstance(block, b.Beside) or (isinstance(block, b.Only) and block.where == "terminal"):
        yield from blocks_markdown(block.blocks, level)
    elif isinstance(block, b.Text):
        plain = _plain(block.words)
        if block.tone == "pre" and plain:
            yield f"{_code(plain)}\n"
        elif line := _line(block.words):
            yield f"{line}\n"
    elif isinstance(block, b.Items):
        marks = (f"{n}." if block.ordered else "*" for n, _ in enumerate(block.items, 1))
        yield from _list(f"{mark} {_line(item)}" for mark, item in zip(marks, block.items, strict=False))
    elif isinstance(block, b.Facts):
        yield from _list(f"* {_line((b.mark(fact.name), ' ', fact.words))}" for fact in block.facts)
    elif isinstance(block, b.Grid) and block.printed and block.rows:
        yield from _table(block)


def _list(items: Iterable[str]) -> Iterator[str]:
    if text := "\n".join(items):
        yield f"{text}\n"


def _table(table: b.Grid) -> Iterator[str]:
    rows = table.rows[: table.printed]
    columns = [c for c in table.filled if c.unit != "bar"]
    if not (rows and columns):
        return
    left = (len(table.rows) if table.total is None else table.total) - len(rows)
    lines = [
        [inline(c.label) or " " for c in columns],
        [":--" if c.is_left else "--:" for c in columns],
        *([inline(b.cell(c, row)) for c in columns] for row in rows),
    ]
    more = f"\n\nand {wording.count(left)} more" if left > 0 else ""
    yield "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"{more}\n"


def _plain(words: b.Words) -> str:
    """Plain text of words on one line, with control characters made visible."""
    plain = "".join(f" {part.text}" if part.tone == "span" else part.text for part in _styled(words))
    return " ".join(wording.visible(plain.replace("\n", " ")).split(" ")).strip()


def _styled(words: b.Words) -> Iterator[b.Styled]:
    return (part for part in b.runs(words) if isinstance(part, b.Styled) and part.text)


def _line(words: b.Words) -> str:
    """Words as inline Markdown, escaped so that the line does not begin a list, heading or underline."""
    return _AT_START.sub(r"\1\\\2", inline(words))


def inline(words: b.Words) -> str:
    """Words as inline Markdown: escaped, with emphasis and code."""
    parts = [*_styled(words)]
    texts = [wording.visible(part.text.replace("\n", " ")) for part in parts]
    written = ""
    for place, (part, text) in enumerate(zip(parts, texts, strict=True)):
        after = texts[place + 1][:1] if place + 1 < len(texts) else ""
        # Emphasis marks that touch a word have no effect: they are left out.
        apart = not _FLANK.match(written[-1:]) and not _FLANK.match(after)
        if part.tone == "code":
            written += _code(text)
        elif part.tone == "strong" and apart and text.strip() == text:
            written += f"**{_escaped(text)}**"
        else:
            written += f"{' ' if part.tone == 'span' else ''}{_escaped(text)}"
    return written.strip()


def _escaped(text: str) -> str:
    # Mentions are found in the rendered text, so escapes do not help: a word joiner separates the @.
    return _MARKUP.sub(lambda match: f"\\{match[0]}", text).replace("@", "@\u2060")


def _code(text: str) -> str:
    """Text as inline code; `|` is replaced, as it would end a table cell even if escaped."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text[:1] in ("`", " ", "") or text[-1:] in ("`", " ") else ""
    return f"{fence}{pad}{text.replace('|', '¦')}{pad}{fence}" if text.strip() else _escaped(text)


def _rows(text: str) -> int:
    return sum(1 + len(line) // _WIDTH for line in text.split("\n"))
