"""Input and output of a page: parameters, and an answer of blocks and data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import IO, Any

from markupsafe import Markup

from analyze.report.blocks import Blocks
from schemas.errors import ConfigError


def whole_number(text: str, least: int, most: int) -> int | None:
    """Integer written in `text`, if it is from `least` to `most`; else None.

    The text may be of any length.
    """
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
    """Input of a page: parameters of a request, and its user."""

    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Parameter name -> values of the parameter, from the query string or a posted form."""
    address: str = "/"
    """Path and query below the base path, to link to other formats of the same page."""
    who: str = ""
    """Name of the user; empty if it is unknown."""
    wants_json: bool = False
    """True if JSON is requested instead of a page."""
    is_foreign: bool = False
    """True if a link or form of another web site led the browser here: such a request starts no
    computation."""

    def one(self, name: str, default: str = "") -> str:
        """Last value of query parameter `name`, without blanks around it; `default` if it is not given."""
        values = self.query.get(name, ())
        return values[-1].strip() if values else default

    def many(self, name: str) -> list[str]:
        """Non-empty values of query parameter `name`, which may be repeated."""
        return [text for value in self.query.get(name, ()) if (text := value.strip())]

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """Query parameter `name` as an integer from `least` to `most`; `default` if not given.

        Raises ConfigError.
        """
        text = self.one(name)
        if not text:
            return default
        found = whole_number(text, least, most)
        if found is None:
            raise ConfigError(f"{name} is a number from {least} to {most}.")
        return found

    def chosen(self, name: str, choices: Sequence[str]) -> str:
        """Value of query parameter `name`, which must be one of `choices`; default: the first.

        Raises ConfigError.
        """
        text = self.one(name, choices[0]) or choices[0]
        if text not in choices:
            raise ConfigError(f"{name} is one of {', '.join(choices)}.")
        return text


@dataclass(frozen=True, slots=True)
class Answer:
    """Content of a page as data; `flowdiff.serve.shell` renders it as HTML or JSON."""

    title: str
    blocks: Blocks = ()
    data: Any = None
    """Content of the page's JSON form; None: it has no JSON form."""
    above: Markup = field(default_factory=Markup)
    """HTML of forms and drawings between title and blocks."""
    below: Markup = field(default_factory=Markup)
    """HTML of forms and drawings below the blocks."""
    status: HTTPStatus = HTTPStatus.OK
    refresh_seconds: int | None = None
    """Interval at which a browser reloads the page, s; None: never."""
    trace_url: str = ""
    """Address that request ids in the blocks link to, with `{trace_id}` for the id; empty: no links."""
    script: bool = False
    """True: the page includes the module for choosing periods with a pointer."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Reply that redirects the browser to another address."""

    to: str


@dataclass(frozen=True, slots=True)
class SentFile:
    """Open file that is sent in pieces, so that a slow client occupies no memory."""

    file: IO[bytes]
    size: int
    done: Callable[[], None]
    """Function to call before the file is closed: when it is sent, or the client has disconnected."""


@dataclass(frozen=True, slots=True)
class Whole:
    """Complete document or file, sent as it is, without the server's navigation."""

    body: bytes
    kind: str = "text/html; charset=utf-8"
    policy: str = ""
    """Content security policy of the document; empty: the server's default policy."""
    name: str = ""
    """File name for a download; empty: the browser shows the document."""
    file: SentFile | None = None
    """File that is sent instead of `body`; None: `body` is sent."""


Reply = Answer | Moved | Whole
