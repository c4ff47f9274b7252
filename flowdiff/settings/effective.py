"""Merge a file, the environment and flags into one model, with the origin of every value. Flags win."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from analyze.methods.registry import method_names
from analyze.watch.settings import WatchSettings
from flowdiff.notify.settings import NotifySettings
from flowdiff.settings.ingest_config import IngestConfig, ServeSettings
from flowdiff.settings.keys import PREFIX, Key, KeyKind, keys_of, nearest
from ingest.kafka.kafka_settings import KafkaSettings
from schemas.errors import ConfigError, FlowdiffError, InputError

M = TypeVar("M", bound=BaseModel)
CONFIG_VARIABLE: Final = f"{PREFIX}CONFIG"
DEFAULT: Final = "default"
KEYS: Final = {key.name: key for key in keys_of(IngestConfig)}
"""Every key by its name."""
_SECTIONS: Final = {".".join(key.path[:n]) for key in KEYS.values() for n in range(1, len(key.path))}
_REACHING: Final = ("kafka.bootstrap", "kafka.client_name", "kafka.security.", "kafka.connect_timeout")
"""Keys by which a Kafka is reached, whatever is done there."""
_USER: Final = re.compile(r"[^\s,'\[(]+@")
"""Who connects, and perhaps a password, written before a host where it does not belong."""
_HASH_KEY: Final = "live.decode.params.hash_key"
_SERVICE_LINK: Final = re.compile(r".*_(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP)(_\w+)?)?)")
"""Variables that Kubernetes sets in a pod for every service of its namespace: `flowdiff-kafka` is one."""


@dataclass(frozen=True, slots=True)
class Effective:
    """What counts, and why."""

    config: IngestConfig
    origins: Mapping[str, str]
    """Where a key's value comes from: a flag, a variable or a file; keys at their default are not there."""

    def value(self, key: Key) -> Any:
        """A key's value in the model."""
        value: Any = self.config
        for part in key.field:
            value = getattr(value, part)
        return value


@dataclass(frozen=True, slots=True)
class _Given:
    """A value somebody gave, and where."""

    value: Any
    origin: str


def effective(flags: Mapping[str, Any], environ: Mapping[str, str], file: Path | None = None) -> Effective:
    """The settings. `flags` by key, only those given; `file` None: the one of FLOWDIFF_CONFIG, or none.

    Raises ConfigError with the key and where its value came from, InputError for a file that cannot be read.
    """
    collected = _gathered(flags, environ, file)
    _read_hash_key(collected)
    try:
        config = IngestConfig.model_validate({"kafka": {}} | _values(collected))
    except ValidationError as error:
        raise _refusal(error, collected) from None  # pydantic's text holds the values, secrets too
    return Effective(config, {name: each.origin for name, each in collected.items()})


def kafka_of(
    flags: Mapping[str, Any], environ: Mapping[str, str], file: Path | None, **fields: Any
) -> KafkaSettings:
    """How to reach a Kafka, for commands that say by `fields` what is done there. Raises as `effective`."""
    given = _gathered(flags, environ, file)
    given = {name: each for name, each in given.items() if name.startswith(_REACHING)}
    try:
        return KafkaSettings.model_validate(_values(given).get("kafka", {}) | fields)
    except ValidationError as error:
        raise _refusal(error, given, ("kafka",)) from None


def watch_of(
    flags: Mapping[str, Any], environ: Mapping[str, str], file: Path | None
) -> tuple[WatchSettings, NotifySettings, ServeSettings]:
    """How a lake is watched, who is notified, and what is served. Raises as `effective`."""
    given = {
        name: each
        for name, each in _gathered(flags, environ, file).items()
        if name.startswith(("watch.", "notify.", "serve."))
    }
    values = _values(given)

    def part(name: str, model: type[M]) -> M:
        try:
            return model.model_validate(values.get(name, {}))
        except ValidationError as error:
            raise _refusal(error, given, (name,)) from None

    return part("watch", WatchSettings), part("notify", NotifySettings), part("serve", ServeSettings)


def _gathered(flags: Mapping[str, Any], environ: Mapping[str, str], file: Path | None) -> dict[str, _Given]:
    if file is None and environ.get(CONFIG_VARIABLE):
        file = Path(environ[CONFIG_VARIABLE])
    given = {} if file is None else _of_file(file)
    given |= _of_environment(environ)
    return given | {name: _Given(value, str(KEYS[name].flag)) for name, value in flags.items()}


def _values(given: Mapping[str, _Given]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, each in given.items():
        KEYS[name].put(values, _read(KEYS[name], each))
    return values


def document_of(file: Path) -> dict[str, Any]:
    """Read a configuration. Raises InputError, ConfigError for what is no TOML."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"The configuration '{file}' cannot be read: {error.strerror}.", remedy="Check the path."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not TOML: {error}.") from error


def _of_file(file: Path) -> dict[str, _Given]:
    compared = {"refine", *method_names()}  # read by whoever compares: `flowdiff.cli.named_settings`
    document = {name: value for name, value in document_of(file).items() if name not in compared}
    found: dict[str, _Given] = {}
    _walk(document, "", str(file), found)
    return found


def _walk(table: Mapping[str, Any], prefix: str, origin: str, found: dict[str, _Given]) -> None:
    for word, value in table.items():
        name = prefix + word
        if name in _SECTIONS and isinstance(value, dict):
            _walk(value, f"{name}.", origin, found)
        elif name in _SECTIONS:
            raise ConfigError(f"{name} ({origin}) is a table: write [{name}].")
        elif name not in KEYS:
            raise ConfigError(f"{origin}: there is no key '{name}'.{nearest(name, [*KEYS, *_SECTIONS])}")
        elif KEYS[name].kind is KeyKind.SECRET:
            raise ConfigError(
                f"{name} ({origin}) is a secret and does not belong into a configuration.",
                remedy=_remedy_of_secret(KEYS[name]),
            )
        else:
            found[name] = _Given(value, origin)


def _remedy_of_secret(key: Key) -> str:
    in_file = "hash_key_file" if key.name == _HASH_KEY else f"{key.name}_file"
    return f"Set {key.variable}, or name a file that holds it: {in_file}."


def _of_environment(environ: Mapping[str, str]) -> dict[str, _Given]:
    """Of every variable with one of our names; an empty one counts as not set."""
    by_variable = {key.variable: name for name, key in KEYS.items()}
    sections = tuple({f"{PREFIX}{key.path[0].upper()}_" for key in KEYS.values() if len(key.path) > 1})
    found: dict[str, _Given] = {}
    for variable, value in environ.items():
        if variable in by_variable and value:
            found[by_variable[variable]] = _Given(value, variable)
        elif (
            variable.startswith(sections)
            and variable not in by_variable
            and not _SERVICE_LINK.fullmatch(variable)
        ):
            raise ConfigError(f"The variable {variable} sets nothing.{nearest(variable, [*by_variable])}")
    return found


def _read_hash_key(given: dict[str, _Given]) -> None:
    """The key of hashed parameters, from its file."""
    file = given.get("hash_key_file")
    if file is None or _HASH_KEY in given:
        return
    try:
        key = Path(str(file.value)).read_bytes().strip()
    except OSError as error:
        raise InputError(
            f"hash_key_file ({file.origin}): '{file.value}' cannot be read: {error.strerror}.",
            remedy="Check the path.",
        ) from error
    given[_HASH_KEY] = _Given(key.decode("utf-8", "surrogateescape"), "hash_key_file")


def _read(key: Key, given: _Given) -> Any:
    try:
        value = key.read(given.value)
    except FlowdiffError as error:
        raise ConfigError(f"{_where(key, given)}: {error.message}", remedy=error.remedy) from None
    except ValueError as error:
        raise ConfigError(f"{_where(key, given)} cannot be {_shown(key, given)}: {error}.") from None
    return value.encode("utf-8", "surrogateescape") if key.name == _HASH_KEY else value


def _where(key: Key, given: _Given | None) -> str:
    return key.name if given is None else f"{key.name} ({given.origin})"


def _shown(key: Key, given: _Given | None) -> str:
    if given is None or key.kind is KeyKind.SECRET:
        return "what it is"
    return f"'{_USER.sub('***@', str(given.value))}'"


def _refusal(error: ValidationError, given: Mapping[str, _Given], above: tuple[str, ...] = ()) -> ConfigError:
    """The first thing that the model, which lies in `above`, has against the values, in terms of keys."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    place = (*above, *(part for part in first["loc"] if isinstance(part, str)))
    why = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
    key = next((key for key in KEYS.values() if place[: len(key.field)] == key.field), None)
    if key is not None and first["type"] == "missing":
        return ConfigError(
            f"{key.name} is not set.", remedy=f"Give {key.flag}, set {key.variable}, or write it into a file."
        )
    if key is not None:
        each = given.get(key.name)
        return ConfigError(f"{_where(key, each)} cannot be {_shown(key, each)}: {why[:1].lower()}{why[1:]}.")
    inside = [key for key in KEYS.values() if key.field[: len(place)] == place]
    named = []
    for key in sorted(inside, key=lambda key: -len(key.field[-1])):
        spelled, uses = re.subn(rf"(?<![\w.]){key.field[-1]}(?!\w)", key.name, why)
        if uses:
            why = spelled
            if key.name in given:
                named.append(_where(key, given[key.name]))
    tail = f" Set: {', '.join(named)}." if named else ""
    return ConfigError(f"{'.'.join(place) or 'settings'}: {why}.{tail}")
