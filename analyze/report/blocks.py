"""Blocks: the content of a report's section as data, filled once by the section and rendered everywhere.

A section is a model (its JSON form, `schemas.report`) and one function that makes blocks of it; a
`SectionView` of its method names both. `page` renders blocks as HTML, `terminal` prints them. Renderers know
no particular section, and sections contain no HTML, widths or escapes: any text may come from outside, and
the renderers escape it where they write it.

To add a column, annotate a field of the row's class (`schemas.report.columns`): it is then in Parquet and in
the SQL reference, and with a label on page and terminal. A section lists the fields to show, and adds columns
that are only shown:

    *columns_of(SiteRow, "mean{}_us", "share")
    Column("requests{}", "Requests", "count", far=1)  # left out first where there is little room
    Column("", "Change", "figure", lambda row: span(row.interval))  # a value that is no field

To add a section, write in one file of its method its model, the function that fills it, and

    def slowest(section: SlowestSection) -> Blocks:
        return (Part("Slowest requests", (Grid("Slowest requests", COLUMNS, section.rows, section.total),)),)

and put `SectionView(SlowestSection, slowest)` into the method's `sections`, and the filled model into its
result.

The content of a line or a cell is `Words`: text, `Styled` text in a tone or with a link, `Bar`s, `Drawing`s,
or a tuple of them. A terminal leaves out bars and drawings, skips `Details`, and prints only the title of a
folded `Part`; content for one of the two only is in an `Only`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from markupsafe import Markup

from analyze.report import measures, wording
from schemas.report.columns import Column as Column
from schemas.report.columns import ColumnUnit
from schemas.report.findings import Interval

Tone = Literal["", "strong", "dim", "code", "span", "tag", "worse", "better", "warning", "pre", "swatch"]
"""Style of words. `span`: small, on a line below a number. `pre`: preformatted, line by line. `swatch`: a
patch in the colour of the sample before (kind `after`: of the sample after).
"""

REQUEST_CHARACTERS: Final = 64
MOST_CHARACTERS: Final = 120
"""Maximum number of characters of a name; longer names are clipped in the middle."""


@dataclass(frozen=True, slots=True)
class Styled:
    """Text in one style, with an optional link and tooltip."""

    text: str
    tone: Tone = ""
    kind: str = ""
    """CSS class, one word; for a label (tone `tag`) the class of its colour: `worse`, `failing`,
    `structural`."""
    href: str = ""
    """Link target: `#anchor` of a part of the same section, or an address."""
    title: str = ""
    """Tooltip, shown when the pointer is over the text; empty: none."""


At = Literal["full", "upper", "lower", "thin"]
"""Part of a bar's height that a stretch fills: the full height, the upper or lower half, or a thin line in
the middle."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Coloured piece of a bar; `left` and `width` are percent of the bar's length."""

    kind: str
    """Colour of the stretch: `before`, `after`, `up`, `down`, `quiet`, `interval`, or a class of the
    section's own style sheet."""
    left: float
    width: float
    at: At = "full"


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar that fills the width of its cell; all bars of a column share one axis."""

    stretches: tuple[Stretch, ...]
    title: str
    """Description for readers who do not see the bar."""
    zero: float | None = None
    """Position of the value 0, percent of the length; None: at the left end, or off the axis."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """Drawing for the page only, made by `analyze.report.drawing`; all text in it is escaped."""

    markup: Markup
    caption: Words = ""
    legend: Words = ""
    wide: str = ""
    """Description of a drawing that may be wider than the page, and is then scrolled separately; empty: the
    drawing always fits."""


Words: TypeAlias = "str | Styled | Bar | Drawing | Sequence[Words]"


def runs(words: Words) -> Iterator[Styled | Bar | Drawing]:
    """Yield the elements of nested words, depth first; a plain str becomes a `Styled` without style."""
    if isinstance(words, str):
        yield Styled(words)
    elif isinstance(words, Styled | Bar | Drawing):
        yield words
    else:
        for part in words:
            yield from runs(part)


def strong(text: str) -> Styled:
    """Text in style `strong`."""
    return Styled(text, "strong")


def dim(text: str) -> Styled:
    """Text in style `dim`."""
    return Styled(text, "dim")


def call_site(label: str, caller: str | None) -> Words:
    """Words for a call site and its caller, both clipped.

    label: name of the call site; caller: name, or None.
    """
    return (
        strong(wording.clip(label, 120)),
        dim("" if caller is None else f" from {wording.clip(caller, 80)}"),
    )


def sides(before: str, after: str) -> Words:
    """Legend of a drawing: the names `before` and `after` with their colours."""
    return (Styled("", "swatch"), f"{before} ", Styled("", "swatch", "after"), after)


def code(text: str, title: str = "") -> Styled:
    """Text of a key or an expression, in code style. title: tooltip."""
    return Styled(text, "code", title=title)


def request_link(request_id: str) -> Styled:
    """Request id, with a link to its trace if the report knows the address of traces."""
    return Styled(wording.clip(request_id, REQUEST_CHARACTERS), "code", "request", title=request_id)


def finding_link(text: str, rank: int) -> Styled:
    """Link to the page of the finding with this rank, if the server has one; else plain text."""
    return Styled(text, kind="finding", title=str(rank))


def tag(text: str, kind: str = "") -> Styled:
    """Label in a coloured box. kind: CSS class of the colour."""
    return Styled(text, "tag", kind)


def joined(parts: Iterable[Words]) -> Words:
    """Join words with commas between them."""
    every: list[Words] = []
    for part in parts:
        every += [", ", part] if every else [part]
    return tuple(every)


# Units: how a value reads; one place for the page, terminal and tables.

_NONE: Final = "–"


def _name(text: str) -> Words:
    return wording.clip(text, MOST_CHARACTERS)


def _key(key: str) -> Words:
    return code(wording.short(key), title=key)


_WORDS: Final[dict[str, Callable[[Any], Words]]] = {
    "name": _name,
    "key": _key,
    "keys": lambda keys: joined(_key(key) for key in keys),
    "count": wording.count,
    "place": wording.count,
    "flag": lambda flag: "yes" if flag else "no",
    "us": wording.duration,
    "change": wording.change,
    "share": wording.percent,
    "gain": lambda share: wording.percent(share, sign=True),
    "ratio": wording.factor,
    "p": wording.p_value,
    "number": wording.significant,
    "c2": wording.c2,
    "part": wording.part,
}
_SPANS: Final[dict[str, Callable[[Interval], str]]] = {
    "c2": measures.ratio_span,
    "ratio": measures.ratio_span,
    "part": measures.part_span,
}


def worded(unit: ColumnUnit, value: Any) -> Words:
    """Format a value of a unit as words; `–` for None (`not run` for a p-value).

    A pair reads `before → after`.
    """
    if unit in ("text", "figure", "bar"):
        return _NONE if value is None else value
    if isinstance(value, tuple) and unit != "keys":
        before, after = value
        if unit == "us":
            return wording.moved_duration(before, after)
        return (worded(unit, before), " → ", worded(unit, after))
    if value is None:
        return wording.p_value(None) if unit == "p" else _NONE
    return _WORDS[unit](value)


def cell(column: Column, row: Any) -> Words:
    """Words of a table cell: the column's value in a row, with its interval if the column has one."""
    words = worded(column.unit, column.of(row))
    interval = getattr(row, column.interval) if column.interval else None
    span = "" if interval is None else _SPANS[column.unit](interval)
    return (strong(str(words)), Styled(span, "span")) if span else words


# Blocks.


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    words: Words
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Items:
    """A list of words, one item per line; numbered if `ordered`."""

    items: Sequence[Words]
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """A name with its value, e.g. `Since: 14:02`."""

    name: str
    words: Words
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Several names with their values."""

    facts: Sequence[Fact]
    look: Literal["numbers", "lines", "rows", "table"] = "rows"
    """Layout. `numbers`: side by side, large; `lines`: side by side, small; either is one paragraph on a
    terminal. `rows`: one below the other; `table`: as `rows`, with names and values aligned."""


def mark(name: str) -> str:
    """Name of a fact as written before its value, capitalized: `Since:`; a number becomes `2.`."""
    return f"{name[:1].upper()}{name[1:]}{'' if name.endswith('.') else ':'}"


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: rows under headings."""

    label: str
    """Noun for one row, e.g. for screen readers; on a terminal it is the heading of the first column."""
    columns: Sequence[Column]
    rows: Sequence[Any]
    total: int | None = None
    """Number of all rows, if `rows` is cut; None: `rows` is complete."""
    stored: str = ""
    """Name of the report's table that has all rows; empty: none."""
    first: int | None = None
    """Number of rows that the page shows before the reader unfolds the table; None: all rows."""
    printed: int = 6
    """Number of rows that a terminal prints."""
    tone: Callable[[Any], str] | None = None
    """Function from a row to its CSS class: `slower`, `faster`, `up`, `down`, `sum`, `end`, `changed`."""
    depth: Callable[[Any], int] | None = None
    """Function from a row to its depth in a tree; None: the rows are not a tree."""
    anchor: str = ""
    """HTML id by which scripts find the table; empty: none."""

    @property
    def filled(self) -> tuple[Column, ...]:
        """Columns with a value in at least one row; a prefix that all names in a column share is moved to its
        heading."""
        shown = (column for column in self.columns if column.is_shown)
        filled = (c for c in shown if any(cell(c, row) not in ("", ()) for row in self.rows))
        return tuple(self._without_prefix(c) if c.unit == "name" else c for c in filled)

    def _without_prefix(self, column: Column) -> Column:
        names = [name for row in self.rows if isinstance(name := column.of(row), str)]
        prefix = wording.common_prefix(sorted({*names}))
        if not prefix:
            return column
        return replace(
            column,
            label=f"{column.label} {prefix}…".strip(),
            value=lambda row: None if (name := column.of(row)) is None else f"…{name[len(prefix) :]}",
        )

    @property
    def shown_of(self) -> str:
        """Number of rows shown and in total, such as `40 of 112`; empty if `rows` is complete."""
        total = len(self.rows) if self.total is None else self.total
        if len(self.rows) >= total:
            return ""
        return f"{wording.count(len(self.rows))} of {wording.count(total)}"


@dataclass(frozen=True, slots=True)
class Beside:
    """Blocks placed side by side if the page is wide enough, else one below the other."""

    blocks: Blocks


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks that the page shows on demand, below a summary; a terminal skips them."""

    summary: Words
    blocks: Blocks
    open: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """Blocks under a title; a part inside a part has a smaller title."""

    title: Words
    blocks: Blocks
    note: Words = ""
    """Small text beside the title."""
    anchor: str = ""
    """HTML id by which links find the part; empty: none."""
    look: Literal["", "card", "lead"] = ""
    """`card`: with a border; `lead`: the title of the whole page."""
    open: bool | None = None
    """Initial state of a part that can be folded by a click: True for unfolded; None: the part cannot be
    folded."""


@dataclass(frozen=True, slots=True)
class Only:
    """Blocks that only one of the two renderers shows: the page, or the terminal."""

    where: Literal["page", "terminal"]
    blocks: Blocks


Block: TypeAlias = Text | Items | Facts | Grid | Drawing | Beside | Details | Part | Only
Blocks: TypeAlias = "Sequence[Block]"
