"""Blocks of any texts as Markdown: what a real parser reads are the texts, and no markup but ours."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from oracles.examples import examples

from analyze.report.blocks import (
    Block,
    Column,
    Fact,
    Facts,
    Grid,
    Items,
    Only,
    Part,
    Text,
    code,
    strong,
)
from analyze.report.markdown import blocks_markdown
from schemas.visible import visible

TEXT = st.text(st.sampled_from("ab1 .:/-+=#>*_`~|\\[](){}<>&!$@w\t\n\x1b\u202eé"), min_size=1, max_size=24)
PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
OURS = {"text", "text_special", "strong", "code_inline", "inline", "heading", "paragraph", "table", "thead"}
OURS |= {"tbody", "tr", "th", "td", "bullet_list", "ordered_list", "list_item"}


@dataclass(frozen=True)
class Row:
    name: str


def tokens(blocks: list[Block]) -> list[Token]:
    """What the parser makes of them, one after the other."""
    found: list[Token] = []
    for token in PARSER.parse("\n".join(blocks_markdown(blocks))):
        found += [token, *(token.children or [])]
    return found


def texts(found: list[Token]) -> list[str]:
    """The text of each inline stretch, without what joins mentions."""
    stretches = [token.children or [] for token in found if token.type == "inline"]
    told = ["".join(t.content for t in s).replace("\u2060", "") for s in stretches]
    return [" ".join(text.split()) for text in told]


def read(text: str) -> str:
    return " ".join(visible(text.replace("\n", " ")).split())


@examples(150)
@given(TEXT)
@example("1. x")
@example("- x")
@example("![a](http://b) www.x <b> &amp; ~~s~~ @team **x** ***")
@example("a|b`c``d")
def test_any_text_is_text(text: str) -> None:
    table = Grid(
        "t", (Column("name", text), Column("", "v", "text", lambda row: code(row.name))), [Row(text)]
    )
    blocks: list[Block] = [
        Text(text),
        Text((strong(text), " ", text)),
        Items([text, text]),
        Items([text], ordered=True),
        Facts([Fact("what", text)]),
        table,
        Part(text, (Only("terminal", (Text(code(text)),)), Only("page", (Text("never"),)))),
    ]
    found = tokens(blocks)
    kinds = {token.type.removesuffix("_open").removesuffix("_close") for token in found}
    assert kinds <= OURS
    if read(text):
        told = read(text)
        bars = told.replace("|", "¦")
        assert texts(found) == [
            told,
            f"{told} {told}",
            told,
            told,
            told,
            f"What: {told}",
            told,
            "v",
            told,
            bars,
            told,
            bars,
        ]
    assert "@" not in "".join(
        token.content.replace("@\u2060", "") for token in found if token.type in ("text", "text_special")
    )
