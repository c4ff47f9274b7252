"""The effective settings as TOML that can be read back; the defaults as a file to begin with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby

from flowdiff.settings.effective import DEFAULT, KEYS, Effective
from flowdiff.settings.keys import Key, Kind
from schemas.visible import visible


def effective_toml(found: Effective) -> str:
    """Every key with its value and where that comes from. Secrets are named and never shown."""
    return _document(lambda key: _effective_line(key, found))


def default_toml() -> str:
    """Every key with what it is, at its default, commented out."""
    return _document(_default_lines)


def _document(lines_of: Callable[[Key], Iterator[str]]) -> str:
    lines: list[str] = []
    for section, keys in groupby(KEYS.values(), key=lambda key: key.path[:-1]):
        if section:
            lines += ["", f"[{'.'.join(section)}]"]
        for key in keys:
            lines += lines_of(key)
    return "\n".join(lines) + "\n"


def _effective_line(key: Key, found: Effective) -> Iterator[str]:
    origin = visible(found.origins.get(key.name, DEFAULT))
    value = found.value(key)
    if value is None:
        yield f"# {key.path[-1]} is not set"
    elif key.kind is Kind.SECRET:
        yield f"# {key.path[-1]} is set, and not shown  # {origin}"
    else:
        yield f"{key.path[-1]} = {key.shown(value)}  # {origin}"


def _default_lines(key: Key) -> Iterator[str]:
    yield f"# {key.about}"
    if key.kind is Kind.SECRET:
        yield f"# A secret: set {key.variable}."
    elif key.default is None:
        yield f"# {key.path[-1]} ="
    else:
        yield f"# {key.path[-1]} = {key.shown(key.default)}"
