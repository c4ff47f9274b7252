"""Command-line options made from a settings model, and the model made back from what was typed.

A command takes the model as a parameter and says so; every field becomes an option:

    @takes_models
    def command(
        lake: LakeOption,
        paper: Annotated[PaperSettings, ModelOptions(leave_out=("min_requests",))],
        refine: Annotated[RefineSettings, ModelOptions(only=("level", "host_policy"),
                                                       fields={"host_policy": FieldOption("--hosts")})],
    ) -> None:
        ...                       # `paper` and `refine` are the models, validated

Of a field the option has the name (`one_to_n`: `--one-to-n/--no-one-to-n`), the type, the bounds, the
default, and as help its description, which `Config` takes from the docstring under it. A new field of the
model is a new option without a line in the command; one that is nobody's business stands in `leave_out`.

Types: bool, int, float, str, Path, Literal, an Enum, each of them also `| None`; `tuple[T, ...]` of those
(repeated; texts also separated by commas) and `tuple[tuple[str, str], ...]` (`A=B`, repeated). Anything else
(a size like 512MB, a nested model) needs a `parse` or stands in `leave_out`.

A value that the model refuses is a ConfigError, one line that names the option. Options that carry a name
twice, and fields that cannot be an option, are a TypeError when the command is imported.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import typer
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from schemas.errors import ConfigError

_SCALARS: Final = (bool, int, float, str, Path, Enum)


@dataclass(frozen=True, slots=True)
class FieldOption:
    """How one field becomes an option, where that is not what its name and type say."""

    name: str | None = None
    """Name with its dashes: `--hosts`; `--ordered/--unordered` for a bool."""
    help: str | None = None
    """Instead of the field's docstring."""
    parse: Callable[[str], Any] | None = None
    """Text to the field's value; raises ValueError or a FlowdiffError. The option is then a text."""
    shown_default: str | None = None
    """The default as help shows it: `1GB`."""
    metavar: str | None = None
    """The word for the value: `SIZE`."""


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Which fields of a model are options, and which are not called what they are."""

    only: tuple[str, ...] | None = None
    """These fields in this order; None: all, in the order of the model."""
    leave_out: tuple[str, ...] = ()
    fields: Mapping[str, FieldOption] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Option:
    """One field as a parameter of the command's function."""

    field: str
    name: str
    parameter: inspect.Parameter
    read: Callable[[Any], Any]
    """What was typed (never None) to what the model takes. Raises ValueError or FlowdiffError."""


def takes_models(command: Callable[..., None]) -> Callable[..., None]:
    """The command with each parameter `Annotated[<model>, ModelOptions(...)]` replaced by its options."""
    hints = get_type_hints(command, include_extras=True)
    models: dict[str, tuple[type[BaseModel], list[_Option]]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        hint = hints[parameter.name]
        how = next(
            (part for part in getattr(hint, "__metadata__", ()) if isinstance(part, ModelOptions)), None
        )
        if how is None:
            parameters.append(parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        model: type[BaseModel] = get_args(hint)[0]
        options = list(_options(parameter.name, model, how))
        models[parameter.name] = (model, options)
        parameters.extend(option.parameter for option in options)
    _refuse_twins([option.name for _, options in models.values() for option in options])

    @functools.wraps(command)
    def with_models(**given: Any) -> None:
        built = {
            name: _build(
                model, options, {option.field: given.pop(option.parameter.name) for option in options}
            )
            for name, (model, options) in models.items()
        }
        command(**given, **built)

    signature = inspect.Signature(parameters)
    with_models.__signature__ = signature  # type: ignore[attr-defined]
    with_models.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_models


def _refuse_twins(names: list[str]) -> None:
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        raise TypeError(f"two fields want the option {twins[0]}: name one of them with a FieldOption")


def _build(model: type[BaseModel], options: list[_Option], given: Mapping[str, Any]) -> BaseModel:
    """The model from what was typed; what was not has its default. Raises ConfigError."""
    values: dict[str, Any] = {}
    for option in options:
        value = given[option.field]
        if value is None:
            continue
        try:
            values[option.field] = option.read(value)
        except ValueError as error:
            raise ConfigError(f"{option.name} cannot be '{_typed(value)}': {error}.") from error
    try:
        return model(**values)
    except ValidationError as error:
        raise _refusal(options, given, error) from error


def _refusal(options: list[_Option], given: Mapping[str, Any], error: ValidationError) -> ConfigError:
    """The first thing the model has against the values."""
    first = error.errors()[0]
    why = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
    option = next((option for option in options if first["loc"][:1] == (option.field,)), None)
    if option is None:
        return ConfigError(f"These options do not go together: {why}.")
    why = why[:1].lower() + why[1:]
    return ConfigError(f"{option.name} cannot be '{_typed(given[option.field])}': {why}.")


def _typed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _options(prefix: str, model: type[BaseModel], how: ModelOptions) -> Iterator[_Option]:
    """The options of a model. Raises TypeError for a field that cannot be one, or is not there."""
    names = how.only if how.only is not None else tuple(model.model_fields)
    unknown = sorted({*names, *how.leave_out, *how.fields} - {*model.model_fields})
    if unknown:
        raise TypeError(f"{model.__name__} has no field '{unknown[0]}'")
    for name in names:
        if name not in how.leave_out:
            told = how.fields.get(name, FieldOption())
            yield _option(f"{prefix}__{name}", name, model.model_fields[name], told)


def _option(parameter: str, name: str, info: FieldInfo, told: FieldOption) -> _Option:
    default = None if info.is_required() else info.get_default(call_default_factory=True)
    words = name.replace("_", "-")
    option_name = told.name or (f"--{words}/--no-{words}" if info.annotation is bool else f"--{words}")
    extra: dict[str, Any] = {} if told.metavar is None else {"metavar": told.metavar}
    if told.parse is not None:
        type_, read = str | None, told.parse
        shown: str | bool = told.shown_default or False
        typer_default = None
    else:
        type_, read = _typed_as(name, info.annotation)
        lists = get_origin(info.annotation) is tuple
        shown = told.shown_default or (
            (", ".join(map(_typed, default)) if default else False) if lists else True
        )
        typer_default = None if lists else default
        extra |= _bounds(info, is_int=int in (info.annotation, *get_args(info.annotation)))
    doc = " ".join((info.description or "").split())
    help_ = told.help or " ".join(part for part in (doc, _open_bounds(info)) if part)
    annotation = Annotated[type_, typer.Option(option_name, help=help_, show_default=shown, **extra)]  # type: ignore[valid-type]
    return _Option(
        name,
        option_name.partition("/")[0],
        inspect.Parameter(
            parameter,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if info.is_required() else typer_default,
            annotation=annotation,
        ),
        read,
    )


def _typed_as(name: str, annotation: Any) -> tuple[Any, Callable[[Any], Any]]:
    """(type for typer, what makes the field's value of it). Raises TypeError."""
    if get_origin(annotation) is not tuple:
        if _is_scalar(annotation):
            return annotation, _as_is
        raise TypeError(f"the field '{name}' cannot be an option: give it a parse, or leave it out")
    items = get_args(annotation)
    if items[1:] == (...,) and items[0] is str:
        return list[str] | None, _split
    if items[1:] == (...,) and get_args(items[0]) == (str, str):
        return list[str] | None, _pairs
    if items[1:] == (...,) and _is_scalar(items[0]):
        return list[items[0]] | None, tuple  # type: ignore[valid-type]
    raise TypeError(f"the field '{name}' cannot be an option: give it a parse, or leave it out")


def _is_scalar(annotation: Any) -> bool:
    if get_origin(annotation) in (Union, UnionType):
        inner = [part for part in get_args(annotation) if part is not type(None)]
        return len(inner) == 1 and _is_scalar(inner[0])
    if get_origin(annotation) is Literal:
        return all(isinstance(value, str) for value in get_args(annotation))
    return isinstance(annotation, type) and issubclass(annotation, _SCALARS)


def _as_is(value: Any) -> Any:
    return value


def _split(values: list[str]) -> tuple[str, ...]:
    return tuple(part for value in values for part in value.split(",") if part)


def _pairs(values: list[str]) -> tuple[tuple[str, str], ...]:
    """`A=B`: the last `=` parts them, so that a regular expression may hold one."""
    pairs = [value.rpartition("=") for value in values]
    if any(not equals or not left or not right for left, equals, right in pairs):
        raise ValueError("write A=B")
    return tuple((left, right) for left, _, right in pairs)


def _limit(info: FieldInfo, name: str) -> Any:
    return next((getattr(part, name) for part in info.metadata if hasattr(part, name)), None)


def _bounds(info: FieldInfo, *, is_int: bool) -> dict[str, Any]:
    """`min` and `max` of the option. An open bound of an int is the next one, of a float told in the help."""
    low, high = _limit(info, "ge"), _limit(info, "le")
    if is_int and low is None and _limit(info, "gt") is not None:
        low = _limit(info, "gt") + 1
    if is_int and high is None and _limit(info, "lt") is not None:
        high = _limit(info, "lt") - 1
    return {name: value for name, value in (("min", low), ("max", high)) if value is not None}


def _open_bounds(info: FieldInfo) -> str:
    if float not in (info.annotation, *get_args(info.annotation)):
        return ""
    limits = ((_limit(info, "gt"), "Above"), (_limit(info, "lt"), "Below"))
    return " ".join(f"{word} {limit:g}." for limit, word in limits if limit is not None)
