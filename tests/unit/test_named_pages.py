"""Messages that send people to a page of the documentation: the page is there, and it says it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("schemas", "ingest", "stitch", "analyze", "simulator", "flowdiff")
PAGE = re.compile(r"docs/(?P<page>(?:internals/)?[\w-]+\.md)(?:#(?P<section>[\w-]+))?")


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
    page = " ".join(sections("internals/runbook.md")[section].split())
    for words in SAID[module, section]:
        assert words in text
        assert words in page


LINK = re.compile(r"\]\((?P<target>[^)\s#]*)(?:#(?P<anchor>[^)\s]*))?\)")
EVERY_DAY = {"operations.md", "report.md", "sql.md", "tutorial.md", "watching.md"}


def pages() -> list[Path]:
    """Markdown of the repository, but not of what is fetched or built."""
    roots = ("docs", "deploy", "tests", *PACKAGES)
    found = [
        *REPOSITORY.glob("*.md"),
        *(page for root in roots for page in (REPOSITORY / root).rglob("*.md")),
    ]
    # remarks.md is a part of docs/internals/evaluation.md, which is checked (below).
    return [page for page in found if not {"expected", "node_modules", "remarks.md"} & {*page.parts}]


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings as GitHub makes them: of equal ones the second ends in `-1`."""
    text = re.sub(r"^(```|~~~).*?^\1", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    seen: dict[str, int] = {}
    found = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w -]", "", plain).strip().replace(" ", "-")
        found.add(f"{anchor}-{seen[anchor]}" if anchor in seen else anchor)
        seen[anchor] = seen.get(anchor, 0) + 1
    return found


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^(```|~~~).*?^\1|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    wrong = []
    for link in LINK.finditer(text):
        target, anchor = link["target"], link["anchor"]
        if re.match(r"[a-z]+:", target):
            continue
        file = (page.parent / target).resolve() if target else page
        there = file.exists() and (not anchor or file.suffix != ".md" or anchor in anchors(file))
        if not there:
            wrong.append(link[0])
    assert wrong == []


def test_the_page_of_the_evaluation_has_its_remarks_as_they_would_be_written_again() -> None:
    remarks = (REPOSITORY / "tests/evaluation/remarks.md").read_text().strip()
    assert remarks in (REPOSITORY / "docs/internals/evaluation.md").read_text()


def test_what_is_needed_every_day_is_not_among_the_rest() -> None:
    docs = REPOSITORY / "docs"
    assert {page.name for page in docs.glob("*.*")} == EVERY_DAY
    readme = (REPOSITORY / "README.md").read_text()
    linked = {
        link["target"]
        for page in (REPOSITORY / "README.md", *docs.glob("*.md"))
        for link in LINK.finditer(page.read_text())
    }
    assert {f"docs/{name}" for name in EVERY_DAY} <= {link["target"] for link in LINK.finditer(readme)}
    rest = {f"internals/{page.name}" for page in (docs / "internals").glob("*.md")}
    assert rest <= {target.removeprefix("docs/") for target in linked}
