"""A report's page as a browser's tokenizer sees it."""

from __future__ import annotations

from html.parser import HTMLParser


class Reader(HTMLParser):
    """Tags, ids, links and text of a page, as a browser's tokenizer sees them."""

    def __init__(self, text: str, *, whole: bool = True) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.whole = whole
        """A part of a page may lack tags at its ends."""
        self.open: list[str] = []
        self.text: list[str] = []
        self.data: dict[str, str] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "link", "br", "col", "rect", "line", "path", "circle", "img", "wbr"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open or not self.whole, f"</{tag}> closes nothing"
        assert not self.open or self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in {"script", "style"}:
            self.data[self.open[-1]] = self.data.get(self.open[-1], "") + data
        else:
            self.text.append(data)


def assert_inert(page: str) -> Reader:
    """The page is well-formed, has no script but its JSON, and names nothing to load."""
    seen = Reader(page)
    assert seen.open == []
    scripts = [attrs for tag, attrs in seen.tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "flowdiff-report"}]
    for _, attrs in seen.tags:
        assert not any(name.startswith("on") or name in {"src", "style", "srcset"} for name in attrs)
        assert (attrs.get("href") or "#").startswith("#")
    assert not any(
        tag in {"link", "iframe", "object", "embed", "base", "form", "image", "use"} for tag, _ in seen.tags
    )
    assert "url(" not in seen.data["style"]
    assert "@import" not in seen.data["style"]
    assert page.count("<script") == 1
    assert page.count("</script") == 1
    return seen
