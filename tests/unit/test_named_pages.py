"""Messages that send people to a page of the documentation: the page is there, and it says it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("schemas", "ingest", "stitch", "analyze", "simulator", "flowdiff")
PAGE = re.compile(r"docs/(?P<page>[\w-]+\.md)(?:#(?P<section>[\w-]+))?")


def messages() -> Iterator[tuple[str, str]]:
    """`(where, text)` of every text in a call that names a page: what is raised, and help of options."""
    for package in PACKAGES:
        for file in sorted((REPOSITORY / package).rglob("*.py")):
            source = file.read_text()
            if "docs/" not in source:
                continue
            for call in ast.walk(ast.parse(source)):
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
    assert any("event_log.py" in where for where in NAMED)


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


SAID = {
    ("stitch/lake/event_log.py", "a-damaged-segment"): (
        "is missing",
        "is not what was committed",
        "events of open requests are in it",
    ),
    ("stitch/drivers/live/topic_format.py", "flowdifflanehalted"): ("is read as", "and its messages are"),
    ("stitch/drivers/live/live_lane.py", "flowdifflanehalted"): ("s ahead of the clock of this host",),
    ("stitch/drivers/live/live_run.py", "a-lane-that-is-set-otherwise"): ("until now", "from now on"),
    ("stitch/lake/lane.py", "a-lane-that-is-set-otherwise"): ("until now", "from now on"),
    ("flowdiff/commands/import_.py", "a-lane-that-is-set-otherwise"): (
        "other options than the lake's requests were made with",
    ),
}
"""Module that says something, and the section of the runbook that explains it: words of both."""


@pytest.mark.parametrize(("module", "section"), SAID)
def test_what_a_person_is_told_is_in_the_runbook(module: str, section: str) -> None:
    text = (REPOSITORY / module).read_text()
    page = " ".join(sections("runbook.md")[section].split())
    for words in SAID[module, section]:
        assert words in text
        assert words in page
