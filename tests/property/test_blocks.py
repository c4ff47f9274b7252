"""Blocks of any texts and numbers: inert on the page, within its width on a terminal, the same in Parquet."""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO
from typing import Annotated, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.examples import examples
from oracles.page_reader import Reader
from rich.console import Console

from analyze.report.blocks import (
    Blocks,
    Column,
    Details,
    Fact,
    Facts,
    Grid,
    Items,
    Only,
    Part,
    Styled,
    Text,
    Words,
    cell,
)
from analyze.report.page import blocks_html
from analyze.report.terminal import print_blocks
from schemas.report.columns import (
    Inside,
    arrow_schema,
    arrow_table,
    column,
    columns_of,
    rows_of,
    stored,
)

TEXT = st.text(st.sampled_from("ab/._:<>&\"'[]\x1b\x00\n\u202e é漢…→"), max_size=200)
US = st.floats(0, 1e12)


@dataclass(frozen=True)
class Row:
    name: str
    n0: int
    n1: int
    mean0_us: float | None
    mean1_us: float
    q: float


ROWS = st.lists(
    st.builds(Row, TEXT, st.integers(0, 10**12), st.integers(0, 10**12), st.none() | US, US, st.floats(0, 1)),
    max_size=5,
)
COLUMNS = (
    stored("name", "name", "what it is called", label="Call site"),
    stored("n{}", "count", "requests, {}", label="Requests"),
    stored("mean{}_us", "us", "mean, {}", label="Mean", far=1, null=True),
    stored("q", "p", "p, corrected", label="q", far=2),
    Column("", "Twice", "text", lambda row: (Styled(row.name, "code"), " ", row.name)),
)


def blocks(text: str, rows: list[Row]) -> Blocks:
    """One of each kind."""
    words: Words = (text, Styled(text, "strong"), Styled(text, "tag", title=text), Styled("x", href="#here"))
    table = Grid(text, COLUMNS, rows, total=len(rows) + 1, first=2, tone=lambda _row: "up")
    inner = (
        Text(words),
        Items([words, text], ordered=True),
        Facts([Fact(text, words)]),
        Facts([Fact(text, words)], "numbers"),
        table,
        Details(words, (table,)),
        Only("page", (Text(text, "pre"),)),
        Only("terminal", (Text(text, "dim"),)),
    )
    return (Part(words, inner, note=words, anchor="here"), Part(words, inner, look="card", open=True))


@examples(60)
@given(TEXT, ROWS, st.integers(60, 120))
def test_any_text_is_inert_and_fits(text: str, rows: list[Row], width: int) -> None:
    out = StringIO()
    print_blocks(blocks(text, rows), Console(file=out, width=width, color_system=None, legacy_windows=False))
    told = out.getvalue()
    assert not set(told) & {"\x1b", "\x00", "\u202e"}
    assert all(len(line) <= width and line == line.rstrip(" ") for line in told.split("\n"))
    page = blocks_html(blocks(text, rows), "-2")
    seen = Reader(page)
    assert seen.open == []
    assert not set(page) & {"\x1b", "\x00", "\u202e"}
    assert {tag for tag, _ in seen.tags} <= {
        *(
            "section",
            "article",
            "div",
            "details",
            "summary",
            "h2",
            "h3",
            "span",
            "strong",
            "code",
            "a",
            "wbr",
        ),
        *("p", "pre", "ul", "ol", "li", "dl", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td"),
    }
    ids = [attrs["id"] for _, attrs in seen.tags if "id" in attrs]
    assert ids == ["here-2", "here-title-2"]
    assert {attrs["href"] for tag, attrs in seen.tags if tag == "a"} <= {"#here-2"}


@given(ROWS)
def test_what_is_stored_is_what_the_rows_hold(rows: list[Row]) -> None:
    table = arrow_table(COLUMNS, rows)
    assert table.schema.equals(arrow_schema(COLUMNS), check_metadata=True)
    assert table.to_pylist() == [
        {
            "name": row.name,
            "n0": row.n0,
            "n1": row.n1,
            "mean0_us": row.mean0_us,
            "mean1_us": row.mean1_us,
            "q": row.q,
        }
        for row in rows
    ]


def test_a_stored_pair_is_two_described_fields() -> None:
    before, after = arrow_schema(COLUMNS[1:2])
    assert (before.name, after.name) == ("n0", "n1")
    assert before.type == after.type == pa.int64()
    assert after.metadata == {b"doc": b"requests, problem"}


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (COLUMNS[1], "29 → 3,174"),
        (COLUMNS[2], "– → 1.5\u00a0ms"),
        (COLUMNS[3], "0.031"),
        (Column("n1", "", "key", lambda _row: "a" * 32), "a" * 10),
        (Column("", "", "gain", lambda _row: 0.12), "+12\u00a0%"),
        (Column("", "", "p", lambda _row: None), "not run"),
    ],
)
def test_a_value_reads_by_its_unit(column: Column, text: str) -> None:
    words = cell(column, Row("a", 29, 3_174, None, 1_500.0, 0.031))
    parts = [words] if isinstance(words, str | Styled) else [*words]
    assert "".join(part.text if isinstance(part, Styled) else part for part in parts) == text


def test_what_all_names_begin_with_stands_in_the_heading_once() -> None:
    rows = [Row(f"shop/hipstershop.Cart/{name}", 1, 2, 1.0, 2.0, 0.5) for name in ("Add", "Empty")]
    page = " ".join(Reader(str(blocks_html((Grid("calls", COLUMNS, rows),), ""))).text)
    assert "Call site shop/hipstershop.Cart/…" in page
    assert "…Add" in page
    out = StringIO()
    print_blocks((Grid("calls", COLUMNS[:1], rows),), Console(file=out, width=80, color_system=None))
    assert out.getvalue().splitlines()[0].strip() == "Call site shop/hipstershop.Cart/…"
    assert out.getvalue().count("hipstershop") == 1
    # Parquet has the names whole.
    assert arrow_table(COLUMNS, rows)["name"].to_pylist() == [row.name for row in rows]


@pytest.mark.parametrize("width", range(12, 40))
def test_a_number_and_its_unit_stay_on_one_line(width: int) -> None:
    told = "from 4.07\u00a0s to 12.3\u00a0ms and 9,138\u00a0requests"
    out = StringIO()
    console = Console(file=out, width=width, color_system=None)
    print_blocks((Text(told), Items([told]), Facts([Fact("a", told)])), console)
    for whole in ("4.07\u00a0s", "12.3\u00a0ms"):
        assert out.getvalue().count(whole) == 3
    assert max(map(len, out.getvalue().splitlines())) <= width


class Span(NamedTuple):
    low: Annotated[float, column("number", "lower end")]
    high: Annotated[float, column("number", "upper end")]


class Measured(NamedTuple):
    name: Annotated[str, column("name", "what it is called", label="Call site")]
    share: Annotated[float | None, column("part", "of all", label="Of all", interval="span")]
    span: Annotated[Span | None, Inside("share_")]
    drawn: bool = False
    """Is nowhere but in the row."""


MEASURED = st.lists(
    st.builds(Measured, TEXT, st.none() | st.floats(0, 1), st.none() | st.builds(Span, US, US)), max_size=5
)


@given(MEASURED)
def test_a_class_of_rows_gives_the_table_and_the_table_the_rows(rows: list[Measured]) -> None:
    columns = (stored("rank", "place", "from 1"), *columns_of(Measured))
    table = arrow_table(columns, rows, rank=range(len(rows)))
    assert [(field.name, field.nullable) for field in table.schema] == [
        *(("rank", False), ("name", False), ("share", True), ("share_low", True), ("share_high", True))
    ]
    assert table["rank"].to_pylist() == [*range(len(rows))]
    assert table.schema.field("share_high").metadata == {b"doc": b"upper end"}
    kept = table.drop_columns(["rank"])
    assert [*rows_of(Stored, kept)] == [Stored(row.name, row.share, row.span) for row in rows]


class Stored(NamedTuple):
    """What of `Measured` is stored."""

    name: Annotated[str, column("name", "")]
    share: Annotated[float | None, column("part", "")]
    span: Annotated[Span | None, Inside("share_")]


def test_a_value_stands_above_its_interval() -> None:
    known = Measured("a", 0.25, Span(0.2, 0.3))
    columns = columns_of(Measured, "share", "name")
    assert [column.key for column in columns] == ["share", "name"]
    assert cell(columns[0], known) == (
        Styled("25\u00a0%", "strong"),
        Styled("20\u00a0% to 30\u00a0%", "span"),
    )
    assert cell(columns[0], known._replace(span=None)) == "25\u00a0%"
