"""Question and answer of a page: parameters in, blocks and data out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import IO, Any

from markupsafe import Markup

from analyze.report.blocks import Blocks
from schemas.errors import ConfigError


def whole_number(text: str, least: int, most: int) -> int | None:
    """Whole number that a text of any length writes; None if it writes none from `least` to `most`."""
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    if not (digits.isascii() and digits.isdigit()):
        return None
    digits = digits.lstrip("0") or "0"
    if len(digits) > max(len(str(abs(least))), len(str(abs(most)))):
        return None  # Python refuses to read thousands of digits
    found = int(sign + digits)
    return found if least <= found <= most else None


@dataclass(frozen=True, slots=True)
class Asked:
    """Parameters of a request, and who asks."""

    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Values of the query, or of a posted form, by name."""
    address: str = "/"
    """Path and query under the base path, for links to other forms of the same page."""
    who: str = ""
    """Name of the user; empty: unknown."""
    wants_json: bool = False
    """True if the address asks for data instead of a page."""
    is_foreign: bool = False
    """True if another site's page sent the browser here: such a request computes nothing."""

    def one(self, name: str, default: str = "") -> str:
        """Last value of a parameter, without blanks around it."""
        values = self.query.get(name, ())
        return values[-1].strip() if values else default

    def many(self, name: str) -> list[str]:
        """Values of a repeated parameter that are not empty."""
        return [text for value in self.query.get(name, ()) if (text := value.strip())]

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """Read a query parameter as a whole number from `least` to `most`; `default` if it is not given.
        Raises ConfigError."""
        text = self.one(name)
        if not text:
            return default
        found = whole_number(text, least, most)
        if found is None:
            raise ConfigError(f"{name} is a number from {least} to {most}.")
        return found

    def chosen(self, name: str, choices: Sequence[str]) -> str:
        """One of some words; the first by default. Raises ConfigError."""
        text = self.one(name, choices[0]) or choices[0]
        if text not in choices:
            raise ConfigError(f"{name} is one of {', '.join(choices)}.")
        return text


@dataclass(frozen=True, slots=True)
class Answer:
    """A page as data; `flowdiff.serve.shell` makes HTML or JSON of it."""

    title: str
    blocks: Blocks = ()
    data: Any = None
    """The same as JSON; None: the page has no such form."""
    above: Markup = field(default_factory=Markup)
    """Forms and drawings between the title and the blocks, made by a template."""
    below: Markup = field(default_factory=Markup)
    """The same behind the blocks."""
    status: HTTPStatus = HTTPStatus.OK
    refresh_seconds: int | None = None
    """Time after which a browser asks again by itself; None: never."""
    trace_url: str = ""
    """Address that request ids of the blocks lead to, `{trace_id}` in place of the id; empty: nowhere."""
    script: bool = False
    """True: the page takes the module for choosing periods with a pointer."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Answer that sends the reader elsewhere."""

    to: str


@dataclass(frozen=True, slots=True)
class SentFile:
    """File that is sent piece by piece, so that a slow reader holds no memory."""

    file: IO[bytes]
    size: int
    done: Callable[[], None]
    """Called once it is sent, or its reader is gone; after that the file is closed."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A complete document, or a file: nothing is put around it."""

    body: bytes
    kind: str = "text/html; charset=utf-8"
    policy: str = ""
    """Content security policy; empty: the server's own."""
    name: str = ""
    """File name, for what is downloaded rather than shown."""
    file: SentFile | None = None
    """Content in place of `body`."""


Reply = Answer | Moved | Whole
