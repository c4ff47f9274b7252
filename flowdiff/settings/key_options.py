"""Flags of a command, one a key. What was not typed is not there: a file and the environment count then."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Final, get_type_hints

import typer

from flowdiff.settings.effective import KEYS
from flowdiff.settings.keys import Key, Kind

_PANELS: Final = {
    (): "Where and who",
    ("kafka",): "Kafka",
    ("kafka", "security"): "Security of Kafka",
    ("live",): "Stitching and committing",
    ("live", "decode"): "Decoding",
    ("live", "decode", "params"): "Privacy of parameters",
    ("live", "stitch"): "Bounds of a request",
    ("serve",): "Metrics and health",
    ("log",): "Log",
}


class Flags(dict[str, Any]):
    """What was typed, by the name of the key."""


def takes_keys(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with its parameter of type Flags replaced by an option for every key."""
    hints = get_type_hints(command, include_extras=True)
    taken = [p for p in inspect.signature(command).parameters.values() if hints[p.name] is not Flags]
    (flags,) = (name for name, hint in hints.items() if hint is Flags)
    options = {f"key_{i}": key for i, key in enumerate(KEYS.values()) if key.flag is not None}
    _refuse_twins([str(key.flag) for key in options.values()])

    @functools.wraps(command)
    def with_keys(**given: Any) -> Any:
        typed = {key.name: given.pop(name) for name, key in options.items()}
        return command(**given, **{flags: Flags(_typed(typed))})

    parameters = [
        *(p.replace(annotation=hints[p.name], kind=inspect.Parameter.KEYWORD_ONLY) for p in taken),
        *(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(key))
            for name, key in options.items()
        ),
    ]
    with_keys.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_keys.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_keys


def _refuse_twins(names: list[str]) -> None:
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        raise TypeError(f"two keys want the option {twins[0]}")


def _typed(given: dict[str, Any]) -> dict[str, Any]:
    """Lists as one text: options may be repeated or separated by commas."""
    return {
        name: ",".join(value) if isinstance(value, list) else value
        for name, value in given.items()
        if value not in (None, [])
    }


def _annotation(key: Key) -> Any:
    has_default = not key.is_required and key.default not in (None, (), "")
    told: dict[str, Any] = {
        "help": key.about,
        "show_default": _plain(key) if has_default else False,
        "rich_help_panel": _PANELS.get(key.path[:-1], ".".join(key.path[:-1])),
    }
    if key.kind is Kind.SWITCH:
        return Annotated[bool | None, typer.Option(f"{key.flag}/--no-{str(key.flag)[2:]}", **told)]
    metavar = f"[{'|'.join(key.choices)}]" if key.choices else str(key.kind)
    if key.kind in (Kind.LIST, Kind.PAIRS):
        return Annotated[list[str] | None, typer.Option(key.flag, metavar=metavar, **told)]
    return Annotated[str | None, typer.Option(key.flag, metavar=metavar, **told)]


def _plain(key: Key) -> str:
    return key.shown(key.default).replace('"', "").strip("[]")
