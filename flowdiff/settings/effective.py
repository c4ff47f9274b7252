"""Merge a file, the environment and flags into one model, with the origin of every value. Flags win."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from analyze.methods.registry import method_names
from analyze.watch.settings import WatchSettings
from flowdiff.notify.settings import NotifySettings
from flowdiff.settings.given import Given, document_of, in_document, read_secret, validated
from flowdiff.settings.ingest_config import IngestConfig, ServeSettings
from flowdiff.settings.keys import CONFIG_VARIABLE, PREFIX, Key, keys_of, nearest
from ingest.kafka.kafka_settings import KafkaSettings
from schemas.errors import ConfigError

DEFAULT: Final = "default"
KEYS: Final = {key.name: key for key in keys_of(IngestConfig)}
"""Name of a key (`live.lateness`) -> key, for all settings of IngestConfig."""
_REACHING: Final = (
    "kafka.bootstrap",
    "kafka.client_name",
    "kafka.security.",
    "kafka.connect_timeout",
    "kafka.request_timeout",
    "kafka.max_unpacked",
)
"""Names or prefixes of the keys for connecting to Kafka, which every command reads."""
_HASH_KEY: Final = "live.decode.params.hash_key"
_SERVICE_LINK: Final = re.compile(r".*_(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP)(_\w+)?)?)")
"""Pattern of variables that Kubernetes sets in a pod for each service, which may be named like
`flowdiff-kafka`.
"""


@dataclass(frozen=True, slots=True)
class Effective:
    """Merged settings, and the origin of each value."""

    config: IngestConfig
    origins: Mapping[str, str]
    """Key -> flag, variable or file that set the value; keys with their default value are missing."""

    def value(self, key: Key) -> Any:
        """Value of the setting `key` in `config`."""
        value: Any = self.config
        for part in key.field:
            value = getattr(value, part)
        return value


def effective(flags: Mapping[str, Any], environ: Mapping[str, str], file: Path | None = None) -> Effective:
    """Merge the settings. flags: key -> given value; file: None uses FLOWDIFF_CONFIG, if set.

    Raises ConfigError with the key and the origin of its value, InputError for a file that cannot be read.
    """
    given = _gathered(flags, environ, file)
    _read_hash_key(given)
    if "lake" not in given:
        key = KEYS["lake"]
        raise ConfigError(
            f"{key.name} is not set.", remedy=f"Give {key.flag}, set {key.variable}, or write it into a file."
        )
    config = validated(IngestConfig, given.values(), base={"kafka": {}})
    return Effective(config, {name: each.origin for name, each in given.items()})


def kafka_of(
    flags: Mapping[str, Any], environ: Mapping[str, str], file: Path | None, **fields: Any
) -> KafkaSettings:
    """Settings for connecting to Kafka. fields: further fields, set by the command. Raises as `effective`."""
    given = _under(_REACHING, _gathered(flags, environ, file))
    return validated(KafkaSettings, given, ("kafka",), fields)


def watch_of(
    flags: Mapping[str, Any], environ: Mapping[str, str], file: Path | None
) -> tuple[WatchSettings, NotifySettings, ServeSettings]:
    """Settings of the watch, its notifications, and its server. Raises as `effective`."""
    given = _gathered(flags, environ, file)
    return (
        validated(WatchSettings, _under(("watch.",), given), ("watch",)),
        validated(NotifySettings, _under(("notify.",), given), ("notify",)),
        validated(ServeSettings, _under(("serve.",), given), ("serve",)),
    )


def _under(beginnings: tuple[str, ...], given: Mapping[str, Given]) -> Iterable[Given]:
    return [each for name, each in given.items() if name.startswith(beginnings)]


def _gathered(flags: Mapping[str, Any], environ: Mapping[str, str], file: Path | None) -> dict[str, Given]:
    if file is None and environ.get(CONFIG_VARIABLE):
        file = Path(environ[CONFIG_VARIABLE])
    found: list[Given] = []
    if file is not None:
        compared = {"refine", *method_names()}  # read by commands that compare: `flowdiff.cli.named_settings`
        document = {name: value for name, value in document_of(file).items() if name not in compared}
        found += in_document(document, KEYS, str(file), "flowdiff config --defaults")
    found += (_named(name, value, variable) for name, variable, value in _of_environment(environ))
    found += (_named(name, value, str(KEYS[name].flag)) for name, value in flags.items())
    return {each.key.name: each for each in found}


def _named(name: str, value: Any, origin: str) -> Given:
    return Given(KEYS[name], value, origin, f"{name} ({origin})")


def _of_environment(environ: Mapping[str, str]) -> Iterable[tuple[str, str, str]]:
    """Yield (key, variable, value) for every variable that is named after a key; empty variables are
    ignored.
    """
    by_variable = {key.variable: name for name, key in KEYS.items()}
    sections = tuple({f"{PREFIX}{key.path[0].upper()}_" for key in KEYS.values() if len(key.path) > 1})
    for variable, value in environ.items():
        if variable in by_variable and value:
            yield by_variable[variable], variable, value
        elif (
            variable.startswith(sections)
            and variable not in by_variable
            and not _SERVICE_LINK.fullmatch(variable)
        ):
            raise ConfigError(f"The variable {variable} sets nothing.{nearest(variable, [*by_variable])}")


def _read_hash_key(given: dict[str, Given]) -> None:
    """Read the HMAC key for hashed parameters from `hash_key_file`, if that is set."""
    file = given.get("hash_key_file")
    if file is None or _HASH_KEY in given:
        return
    key = read_secret(file.name, Path(str(file.value)))
    given[_HASH_KEY] = _named(_HASH_KEY, key.decode("utf-8", "surrogateescape"), "hash_key_file")
