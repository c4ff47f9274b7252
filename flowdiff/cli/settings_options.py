"""Derive the options of a command from settings models, and build the models from the given options.

A command declares a model as a parameter; every key of the model (`flowdiff.settings.keys`) is an option:

    @takes_settings
    def command(
        lake: LakeOption,
        settings: Annotated[ImportSettings, Options(only=("format", "memory"))],
    ) -> None:
        ...                       # `settings` is the model, validated

A new field of the model is a new option with the field's docstring as help. Options not given are left unset,
so that the model's default applies, or a file and the environment: a parameter of type `Flags` gets the given
options by the names of their keys. A value that the model refuses is a ConfigError, one line that names the
option. Options shared by several commands are the fields of a dataclass, typed as options: the parameter
`Annotated[<dataclass>, Together()]` gets an instance with the given values.

Two fields with the same option, and fields that cannot be an option, are a TypeError when the command is
imported.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Final, get_args, get_type_hints

import typer

from flowdiff.settings.given import Given, validated
from flowdiff.settings.keys import Key, KeyKind, keys_of

_SENTENCE: Final = re.compile(r"^(.*?\.)(?= [A-Z0-9`]).*$", re.DOTALL)
_LONGEST_WORD: Final = 18
"""Maximum length, characters, of a value's placeholder in help; a longer placeholder takes space from the
text."""


class Flags(dict[str, Any]):
    """Name of a key -> given value, for the options that were given."""


@dataclass(frozen=True, slots=True)
class Options:
    """Selection of a model's keys as options."""

    only: tuple[str, ...] | None = None
    """Names of the keys (`decode.label_keys`) in order; None: all keys that have a flag."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """Name of a key -> flag, for keys whose flag is not derived from the name."""
    keys: Iterable[Key] | None = None
    """Keys that options are made from, for a parameter of type `Flags`; None: the keys of the parameter's
    model.
    """


@dataclass(frozen=True, slots=True)
class Together:
    """Marks a parameter that is a dataclass of options."""

    panel: str | None = None
    """Heading of the options in help; None: they are listed with the general options."""


@dataclass(frozen=True, slots=True)
class _Option:
    """Option of a command for one setting: the key, the flag, and the parameter of the command's function."""

    key: Key
    flag: str
    parameter: inspect.Parameter


def takes_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Replace each parameter marked with `Options` or `Together` by its options."""
    hints = get_type_hints(command, include_extras=True)
    taken: dict[str, tuple[Any, list[_Option]]] = {}
    together: dict[str, tuple[Any, list[inspect.Parameter]]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        hint = hints[parameter.name]
        marks = [part for part in getattr(hint, "__metadata__", ()) if isinstance(part, Options | Together)]
        if not marks:
            parameters.append(parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        model, (how,) = get_args(hint)[0], marks
        if isinstance(how, Together):
            together[parameter.name] = model, _fields_of(model, how.panel)
            parameters += together[parameter.name][1]
            continue
        options = _options_of(parameter.name, model, how)
        taken[parameter.name] = (model, options)
        parameters += [option.parameter for option in options]
    flags = [option.flag for _, options in taken.values() for option in options]
    if twins := sorted({flag for flag in flags if flags.count(flag) > 1}):
        raise TypeError(f"two keys want the option {twins[0]}")

    @functools.wraps(command)
    def with_settings(**given: Any) -> Any:
        built = {name: _built(model, options, given) for name, (model, options) in taken.items()}
        for name, (class_, own) in together.items():
            built[name] = class_(**{each.name: given.pop(each.name) for each in own})
        return command(**given, **built)

    with_settings.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_settings.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_settings


def _fields_of(class_: Any, panel: str | None) -> list[inspect.Parameter]:
    """Parameters for the fields of a dataclass, which must have defaults. panel: heading of the options in
    help.
    """
    hints = get_type_hints(class_, include_extras=True)
    for name, hint in hints.items():
        if options := getattr(hint, "__metadata__", ()):
            option = copy(options[0])
            option.rich_help_panel = panel
            hints[name] = Annotated[get_args(hint)[0], option]
    return [
        inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name]
        )
        for each in fields(class_)
    ]


def _options_of(parameter: str, model: Any, how: Options) -> list[_Option]:
    """Options for the keys of a model. Raises TypeError for an unknown key."""
    keys = {key.name: key for key in (keys_of(model) if how.keys is None else how.keys)}
    if unknown := sorted({*(how.only or ()), *how.flags} - {*keys}):
        raise TypeError(f"{model.__name__} has no key '{unknown[0]}'")
    options = []
    for name in keys if how.only is None else how.only:
        flag = how.flags.get(name, keys[name].flag)
        if flag is not None:
            place = f"{parameter}__{name.replace('.', '__')}"
            as_option = inspect.Parameter(
                place,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=_annotation(keys[name], flag),
            )
            options.append(_Option(keys[name], flag, as_option))
    return options


def _annotation(key: Key, flag: str) -> Any:
    has_default = not key.is_required and key.default not in (None, (), "")
    described: dict[str, Any] = {
        "help": _SENTENCE.sub(r"\1", key.about),
        "show_default": key.shown(key.default).replace('"', "").strip("[]") if has_default else False,
    }
    if key.kind is KeyKind.SWITCH:
        return Annotated[bool | None, typer.Option(f"{flag}/--no-{flag[2:]}", **described)]
    words = "|".join(key.choices)
    metavar = words if 0 < len(words) <= _LONGEST_WORD else str(key.kind)
    if key.kind in (KeyKind.LIST, KeyKind.PAIRS):
        return Annotated[list[str] | None, typer.Option(flag, metavar=metavar, **described)]
    return Annotated[str | None, typer.Option(flag, metavar=metavar, **described)]


def _built(model: Any, options: list[_Option], given: dict[str, Any]) -> Any:
    """Make a model, or `Flags`, from the options among `given`, which are removed from it.

    Raises ConfigError.
    """
    typed: list[Given] = []
    for option in options:
        value = given.pop(option.parameter.name)
        if value not in (None, []):
            typed.append(Given(option.key, joined(option.key, value), option.flag, option.flag))
    if model is Flags:
        return Flags({each.key.name: each.value for each in typed})
    return validated(model, typed)


def joined(key: Key, value: Any) -> Any:
    """Value for a key, from the values of its option.

    The values of a repeated option are joined by commas to one text; other values, and lists of pairs of
    plain texts, are returned unchanged.
    """
    return ",".join(value) if isinstance(value, list) and (key.kind is KeyKind.LIST or key.pair) else value
