"""Build a settings model from given values, and report the first error in one line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from flowdiff.settings.keys import Key, KeyKind, keys_of, nearest
from schemas.errors import ConfigError, FlowdiffError, InputError
from schemas.masking import masked_address

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Given:
    """A value set for a key, and the flag, variable or file that set it."""

    key: Key
    value: Any
    origin: str
    """Flag, variable or file that set the value."""
    name: str
    """Name of the key in messages: `--lateness`, or `live.lateness (FILE)`."""

    @property
    def shown(self) -> str:
        """Value as text for messages, without a user's name, a password or a secret."""
        if self.key.kind is KeyKind.SECRET:
            return "what it is"
        text = ", ".join(map(str, self.value)) if isinstance(self.value, list) else str(self.value)
        return f"'{masked_address(text)}'"

    def put(self, values: dict[str, Any]) -> None:
        """Set the value in `values`, the input of the settings model. Raises ConfigError."""
        try:
            self.key.put(values, self.key.read(self.value))
        except FlowdiffError as error:
            raise ConfigError(f"{self.name}: {error.message}", remedy=error.remedy) from None
        except ValueError as error:
            raise ConfigError(f"{self.name} cannot be {self.shown}: {error}.") from None


def validated(
    model: type[M], given: Iterable[Given], above: tuple[str, ...] = (), base: Mapping[str, Any] | None = None
) -> M:
    """Make a model from given values, with defaults for all other fields. Raises ConfigError.

    above: field names that lead from the outermost model, to which keys refer, to `model`. base: values of
    fields that `given` does not set.
    """
    given = list(given)
    values: dict[str, Any] = {}
    for each in given:
        each.put(values)
    for part in above:
        values = values.get(part, {})
    try:
        return model.model_validate({**(base or {}), **values})
    except ValidationError as error:
        raise _refusal(error, model, given, above) from None  # pydantic's text holds the values, secrets too


def _refusal(
    error: ValidationError, model: type[BaseModel], given: list[Given], above: tuple[str, ...]
) -> ConfigError:
    """ConfigError for the first validation error, with keys instead of field names."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    place = (*above, *(part for part in first["loc"] if isinstance(part, str)))
    why = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
    for each in given:
        if place[: len(each.key.field)] == each.key.field:
            return ConfigError(f"{each.name} cannot be {each.shown}: {why[:1].lower()}{why[1:]}.")
    # A conflict between values: the model's message uses field names.
    by_field = {each.key.field: each.name for each in given}
    named = []
    for key in sorted(keys_of(model, above, above), key=lambda key: -len(key.field[-1])):
        if key.field[: len(place)] == place:
            why, uses = re.subn(rf"(?<![\w.]){key.field[-1]}(?!\w)", key.name, why)
            named += [by_field[key.field]] if uses and key.field in by_field else []
    tail = f" Set: {', '.join(named)}." if named else ""
    return ConfigError(f"{'.'.join(place) or 'These settings do not go together'}: {why}.{tail}")


def read_secret(name: str, file: Path) -> bytes:
    """Content of a file with a secret, without blanks around it. Raises InputError."""
    try:
        return file.read_bytes().strip()
    except OSError as error:
        raise InputError(
            f"{name}: '{file}' cannot be read: {error.strerror}.", remedy="Check the path."
        ) from error


def document_of(file: Path) -> dict[str, Any]:
    """Parse a configuration file. Raises InputError; ConfigError for invalid TOML."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"The configuration '{file}' cannot be read: {error.strerror}.", remedy="Check the path."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not TOML: {error}.") from error


def in_document(
    document: Mapping[str, Any], keys: Mapping[str, Key], file: str, listed_by: str
) -> Iterator[Given]:
    """Yield every value of a configuration. Raises ConfigError; listed_by: the command that lists all
    keys."""
    sections = {".".join(name.split(".")[:n]) for name in keys for n in range(1, name.count(".") + 1)}
    waiting = list(document.items())
    while waiting:
        name, value = waiting.pop()
        if name in sections and isinstance(value, dict):
            waiting += [(f"{name}.{word}", inner) for word, inner in value.items()]
        elif name in sections:
            raise ConfigError(f"{name} ({file}) is a table: write [{name}].")
        elif name not in keys:
            known = [*keys, *sections]
            raise ConfigError(f"{file}: there is no key '{name}'.{nearest(name, known, listed_by)}")
        elif keys[name].kind is KeyKind.SECRET:
            raise ConfigError(
                f"{name} ({file}) is a secret and does not belong into a configuration.",
                remedy=f"Set {keys[name].variable}, or name a file that holds it: {keys[name].file_key}.",
            )
        else:
            yield Given(keys[name], value, file, f"{name} ({file})")
