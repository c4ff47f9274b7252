"""A section of a report as data: blocks, filled once by the section, shown alike everywhere.

A section is a model (what the JSON holds, `schemas.report`) and one function that makes blocks of it; both
are named in a `SectionView` of its method. `page` renders blocks as HTML, `terminal` prints them. Neither
knows a section, and no section knows HTML, widths or escapes: every text may come from outside, and the
renderers make it safe where they write it.

To add a column, annotate a field of the row's class (`schemas.report.columns`): it is in Parquet and in the
SQL reference, and with a label on page and terminal. A section names the fields that it shows, and adds what
is shown only:

    *columns_of(SiteRow, "mean{}_us", "share")
    Column("requests{}", "Requests", "count", far=1)  # left out first where there is little room
    Column("", "Change", "figure", lambda row: span(row.interval))  # a value that is no field

To add a section, write in one file of its method its model, the function that fills it, and

    def slowest(section: SlowestSection) -> Blocks:
        return (Part("Slowest requests", (Grid("Slowest requests", COLUMNS, section.rows, section.total),)),)

and put `SectionView(SlowestSection, slowest)` into the method's `sections`, what fills it into its result.

What stands in a line or a cell is `Words`: text, `Styled` text in a tone or with a link, `Bar`s, `Drawing`s,
or a tuple of them. On a terminal bars and drawings are left out, `Details` stay closed, and of a folded
`Part` the title is printed; what is for one of the two only stands in an `Only`.
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
"""How words stand out. `span`: small, on a line of its own below a number. `pre`: as it is, line by line.
`swatch`: a patch of colour, before the first or (`after`) the second of two."""

REQUEST_CHARACTERS: Final = 64
MOST_CHARACTERS: Final = 120
"""Longer names are clipped in the middle."""


@dataclass(frozen=True, slots=True)
class Styled:
    """A stretch of text in one tone."""

    text: str
    tone: Tone = ""
    kind: str = ""
    """What it is of, in a word: with `tag` the colour of a label (`worse`, `failing`, `structural`)."""
    href: str = ""
    """`#anchor` of a part of the same section, or an address."""
    title: str = ""
    """What a pointer that rests on it shows."""


At = Literal["full", "upper", "lower", "thin"]
"""How much of a bar's height a stretch takes."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A piece of a bar, percent of its length."""

    kind: str
    """Colour: `before`, `after`, `up`, `down`, `quiet`, `interval`, or one of the section's own style."""
    left: float
    width: float
    at: At = "full"


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar as wide as its place; all bars of a column lie under each other, on one axis."""

    stretches: tuple[Stretch, ...]
    title: str
    """What it shows, for who does not see it."""
    zero: float | None = None
    """Where 0 lies, percent; None: at the left end, or nowhere."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawing, on the page only; made by `analyze.report.drawing`, all text in it escaped."""

    markup: Markup
    caption: Words = ""
    legend: Words = ""
    wide: str = ""
    """What it shows, where it may be wider than the page and scrolls by itself."""


Words: TypeAlias = "str | Styled | Bar | Drawing | Sequence[Words]"


def runs(words: Words) -> Iterator[Styled | Bar | Drawing]:
    """Words one by one."""
    if isinstance(words, str):
        yield Styled(words)
    elif isinstance(words, Styled | Bar | Drawing):
        yield words
    else:
        for part in words:
            yield from runs(part)


def strong(text: str) -> Styled:
    """Text that stands out."""
    return Styled(text, "strong")


def dim(text: str) -> Styled:
    """Text that stands back."""
    return Styled(text, "dim")


def call_site(label: str, caller: str | None) -> Words:
    """A call site, and who calls."""
    return (
        strong(wording.clip(label, 120)),
        dim("" if caller is None else f" from {wording.clip(caller, 80)}"),
    )


def sides(before: str, after: str) -> Words:
    """A legend: the colours of before and after, with what each stands for."""
    return (Styled("", "swatch"), f"{before} ", Styled("", "swatch", "after"), after)


def code(text: str, title: str = "") -> Styled:
    """A key or an expression, as it is written."""
    return Styled(text, "code", title=title)


def request_link(request_id: str) -> Styled:
    """A request by its id: a link where the report knows an address of traces."""
    return Styled(wording.clip(request_id, REQUEST_CHARACTERS), "code", "request", title=request_id)


def tag(text: str, kind: str = "") -> Styled:
    """A label."""
    return Styled(text, "tag", kind)


def joined(parts: Iterable[Words]) -> Words:
    """Words with commas between."""
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
    """A value of a unit in words; `–` for None, of a p-value `not run`; a pair as `before → after`."""
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
    """The value of a row in words, with the interval in which it lies where the column has one."""
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
    """A list."""

    items: Sequence[Words]
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """A name and what is known under it."""

    name: str
    words: Words
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and what is known under each."""

    facts: Sequence[Fact]
    look: Literal["numbers", "lines", "rows"] = "rows"
    """`numbers`: side by side, large; `lines`: side by side, small; both on a terminal in one paragraph.
    `rows`: one below the other."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows under headings."""

    label: str
    """What it lists, for who does not see it; on a terminal the heading of the first column."""
    columns: Sequence[Column]
    rows: Sequence[Any]
    total: int | None = None
    """How many rows there are, where more than are given; None: all are."""
    stored: str = ""
    """Table beside the report that has all of them."""
    first: int | None = None
    """Rows in sight; the others on demand. None: all."""
    printed: int = 6
    """Rows on a terminal."""
    tone: Callable[[Any], str] | None = None
    """What a row is: `slower`, `faster`, `up`, `down`, `sum`, `end`, `changed`."""
    depth: Callable[[Any], int] | None = None
    """How deep a row lies below others, for a tree; None: it is none."""
    anchor: str = ""
    """What a script finds it by."""

    @property
    def filled(self) -> tuple[Column, ...]:
        """Columns that say anything: one that is empty in every row is left out. What all names of one begin
        with stands in its heading, once."""
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
        """`40 of 112`; empty where all are here."""
        total = len(self.rows) if self.total is None else self.total
        if len(self.rows) >= total:
            return ""
        return f"{wording.count(len(self.rows))} of {wording.count(total)}"


@dataclass(frozen=True, slots=True)
class Beside:
    """Blocks side by side where there is room."""

    blocks: Blocks


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks on demand, on the page only."""

    summary: Words
    blocks: Blocks
    open: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """Blocks under a title. A part within a part has a smaller one."""

    title: Words
    blocks: Blocks
    note: Words = ""
    """Beside the title, small."""
    anchor: str = ""
    """What links name it."""
    look: Literal["", "card", "lead"] = ""
    """A `card` stands for itself, with a border; a `lead` is the title of all."""
    open: bool | None = None
    """None: always; else whether it is open, and folds at a click."""


@dataclass(frozen=True, slots=True)
class Only:
    """Blocks for the page or for a terminal alone."""

    where: Literal["page", "terminal"]
    blocks: Blocks


Block: TypeAlias = Text | Items | Facts | Grid | Drawing | Beside | Details | Part | Only
Blocks: TypeAlias = "Sequence[Block]"
