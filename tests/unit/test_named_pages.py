"""Messages that send people to a page of the documentation: the page is there, and it says it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("schemas", "ingest", "stitch", "analyze", "flowdiff")
PAGE = re.compile(r"docs/(?P<page>[\w-]+\.md)(?:#(?P<section>[\w-]+))?")


def messages() -> Iterator[tuple[str, str]]:
    """`(where, text)` of every text in a call that names a page: what is raised, and help of options."""
    for package in PACKAGES:
        for file in sorted((REPOSITORY / package).rglob("*.py")):
            for call in ast.walk(ast.parse(file.read_text())):
                if isinstance(call, ast.Call):
                    texts = [node for part in (*call.args, *call.keywords) for node in ast.walk(part)]
                    text = " ".join(
                        node.value
                        for node in texts
                        if isinstance(node, ast.Constant) and isinstance(node.value, str)
                    )
                    if PAGE.search(text):
                        yield f"{file.relative_to(REPOSITORY)}:{call.lineno}", text


def sections(page: str) -> dict[str, str]:
    """Text of each section by the anchor of its heading."""
    parts = re.split(r"^#+ (.+)$", (REPOSITORY / "docs" / page).read_text(), flags=re.MULTILINE)
    anchors = (re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in parts[1::2])
    return dict(zip(anchors, parts[2::2], strict=True))


NAMED = dict(messages())


def test_messages_name_pages() -> None:
    assert any("staging.py" in where for where in NAMED)


@pytest.mark.parametrize("where", NAMED)
def test_a_page_that_a_message_names_is_there_and_says_it(where: str) -> None:
    for named in PAGE.finditer(NAMED[where]):
        page = sections(named["page"])
        if named["section"] is None:
            continue
        commands = re.findall(r"`(flowdiff [\w-]+(?: --[\w-]+)?)`", NAMED[where])
        said = page[named["section"]]
        for command in commands:
            assert all(word in said for word in command.split()), f"{named[0]} does not tell of {command}"


def test_what_a_damaged_segment_says_is_on_its_page() -> None:
    text = (REPOSITORY / "stitch" / "lake" / "staging.py").read_text()
    said = sections("runbook.md")["a-damaged-segment"]
    for what in ("is missing", "is not what was committed", "events of open requests are in it"):
        assert what in text
        assert what in said
