"""Keys of a settings model: the names of a value in a file, in the environment and as a flag.

Derived from the model, so that a new field is a new key. The model's `live.commit_interval_ns` has the key
`live.commit_interval`, the variable FLOWDIFF_LIVE_COMMIT_INTERVAL and the flag --commit-interval; its value
is written `10s`, a size in bytes `512MB`. Only secrets have no flag, because lists of processes show flags,
and no key in a file, because files are passed around.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic.fields import FieldInfo

from schemas.config import EXPERT
from schemas.errors import ConfigError
from schemas.sizes import parse_size
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND, parse_duration_ns, window_length_ns

PREFIX: Final = "FLOWDIFF_"
CONFIG_VARIABLE: Final = f"{PREFIX}CONFIG"
"""Environment variable that names the settings file, unless an option does."""
FLAGLESS_SECTIONS: Final = ("kafka", "live", "watch")
"""Sections whose name is left out of a flag: `live.lateness` is --lateness."""
_UNIT: Final = re.compile(r"`(\w+?)_(?:ns|ms|bytes)`")
"""Pattern of a field's name with a unit in a description; the unit is removed, as the names of keys have
none."""
_SUFFIXES: Final = (("_ns", 1), ("_ms", 1_000_000), ("_bytes", 0))


class KeyKind(StrEnum):
    """Kind of a key's value; its text is the placeholder in help."""

    DURATION = "DURATION"
    WINDOW = "LENGTH"
    SIZE = "SIZE"
    SWITCH = "BOOL"
    INTEGER = "INTEGER"
    NUMBER = "NUMBER"
    CHOICE = "CHOICE"
    TEXT = "TEXT"
    LIST = "LIST"
    PAIRS = "PATTERN=WORD"
    SECRET = "SECRET"


@dataclass(frozen=True, slots=True)
class Key:
    """Key of a setting: its names, its type and its default."""

    path: tuple[str, ...]
    """Names that lead to the value in a file: `("live", "commit_interval")`."""
    field: tuple[str, ...]
    """Field names that lead to the value in the model: `("live", "commit_interval_ns")`."""
    kind: KeyKind
    unit_ns: int
    """Length, in ns, of the unit of a duration field: 1, or 1,000,000 for a field in ms."""
    default: Any
    is_required: bool
    about: str
    choices: tuple[str, ...] = ()
    pair: tuple[str, ...] = ()
    """For kind PAIRS, names of the two parts; empty: the pairs have no names."""
    is_expert: bool = False
    """True for a setting that few people change; help lists it on request only."""

    @property
    def name(self) -> str:
        """Name of the key in files and messages: `live.commit_interval`."""
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        """Name of the environment variable: FLOWDIFF_LIVE_COMMIT_INTERVAL."""
        if self.path[-1] == "hash_key":  # the same variable as for `flowdiff import`
            return f"{PREFIX}HASH_KEY"
        return PREFIX + "_".join(self.path).upper()

    @property
    def flag(self) -> str | None:
        """Flag of the key: `--commit-interval`; None for a secret."""
        if self.kind is KeyKind.SECRET:
            return None
        path = self.path[1:] if self.path[0] in FLAGLESS_SECTIONS else self.path
        return "--" + "-".join(path).replace("_", "-")

    @property
    def file_key(self) -> str:
        """Key that names the file with the secret."""
        return "hash_key_file" if self.path[-1] == "hash_key" else f"{self.name}_file"

    def read(self, value: Any) -> Any:
        """Convert `value`, from a file or as text, to a value of the model's field.

        Raises ValueError, ConfigError.
        """
        match self.kind:
            case KeyKind.DURATION:
                ns = duration_of(_text(value, "'10s'"))
                if ns % self.unit_ns:
                    raise ValueError(f"whole {shown_duration(self.unit_ns)} only")
                return ns // self.unit_ns
            case KeyKind.WINDOW:
                return window_length_ns(_text(value, "'5m'"))
            case KeyKind.SIZE:
                return size_of(_text(value, "'64MB'"))
            case KeyKind.LIST:
                return tuple(filter(None, value.split(","))) if isinstance(value, str) else value
            case KeyKind.PAIRS:
                parts = [part for part in value.split(",") if part] if isinstance(value, str) else value
                return [self._pair(part) if isinstance(part, str) else part for part in parts]
            case KeyKind.INTEGER | KeyKind.NUMBER if isinstance(value, bool):
                raise ValueError("a number is wanted")
            case KeyKind.TEXT | KeyKind.CHOICE:
                return _text(value, "text")
            case KeyKind.SECRET:  # a file or variable may contain any bytes
                return _text(value, "text").encode("utf-8", "surrogateescape")
        return value

    def put(self, values: dict[str, Any], value: Any) -> None:
        """Set the converted `value` at this key in `values`, the input of the settings model."""
        for part in self.field[:-1]:
            values = values.setdefault(part, {})
        values[self.field[-1]] = value

    def _pair(self, text: str) -> dict[str, str] | tuple[str, str]:
        """Split a text at its last `=` into the two parts of a pair; so the first part may be a regular
        expression with `=`."""
        left, equals, right = text.rpartition("=")
        if not equals or not left or not right:
            raise ValueError(f"write {self.kind}")
        return dict(zip(self.pair, (left, right), strict=True)) if self.pair else (left, right)

    def default_lines(self, name: str) -> Iterator[str]:
        """Lines with the key's description, then its default as TOML under `name`."""
        yield self.about
        if self.kind is KeyKind.SECRET:
            yield f"A secret: set {self.variable}."
        else:
            yield f"{name} =" if self.default is None else f"{name} = {self.shown(self.default)}"

    def shown(self, value: Any) -> str:
        """TOML of a model's value, in a form that `read` accepts. Not for secrets and None."""
        assert self.kind is not KeyKind.SECRET
        match self.kind:
            case KeyKind.DURATION | KeyKind.WINDOW:
                return _toml(shown_duration(value * self.unit_ns))
            case KeyKind.SIZE:
                return _toml(shown_size(value))
            case KeyKind.LIST:
                return f"[{', '.join(map(_toml, value))}]"
            case KeyKind.PAIRS:
                rows = (
                    ", ".join(f"{part} = {_toml(getattr(row, part))}" for part in self.pair) for row in value
                )
                return f"[{', '.join(f'{{ {row} }}' for row in rows)}]"
        return _toml(value)


def _text(value: Any, example: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"write {example}" if example != "text" else "text is wanted")
    return value


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    text = value.value if isinstance(value, Enum) else str(value)
    # JSON strings are valid TOML except for DEL; surrogates, invalid in TOML, are excluded before.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def keys_of(
    model: type[BaseModel],
    path: tuple[str, ...] = (),
    field: tuple[str, ...] = (),
    *,
    is_expert: bool = False,
) -> Iterator[Key]:
    """Yield the key of every setting in a model and its nested models, the model's own first.

    is_expert: True to mark all keys as expert keys, as in a nested model that is marked `Expert`.
    """
    parts: list[tuple[str, type[BaseModel], bool]] = []
    for name, info in model.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            parts.append((name, info.annotation, EXPERT in info.metadata))
        else:
            word = name.removesuffix(next((end for end, _ in _SUFFIXES if name.endswith(end)), ""))
            yield _key((*path, word), (*field, name), info, is_expert)
    for name, part, expert in parts:
        yield from keys_of(part, (*path, name), (*field, name), is_expert=is_expert or expert)


def _key(path: tuple[str, ...], field: tuple[str, ...], info: FieldInfo, is_expert: bool) -> Key:
    kind, type_ = _kind(field[-1], info)
    return Key(
        path,
        field,
        kind,
        next((unit for suffix, unit in _SUFFIXES if field[-1].endswith(suffix)), 0) or 1,
        None if info.is_required() else info.get_default(call_default_factory=True),
        info.is_required(),
        _UNIT.sub(r"`\1`", " ".join((info.description or "").split())),
        _choices(type_) if kind is KeyKind.CHOICE else (),
        tuple(getattr(type_, "model_fields", ())) if kind is KeyKind.PAIRS else (),
        is_expert or EXPERT in info.metadata,
    )


def _kind(name: str, info: FieldInfo) -> tuple[KeyKind, Any]:
    """Return (kind of a field's values, type that determines it).

    Raises TypeError for a type without a text form.
    """
    type_: Any = info.annotation
    if get_origin(type_) in (Union, UnionType):
        (type_,) = (part for part in get_args(type_) if part is not type(None))
    if get_origin(type_) is tuple:
        item = get_args(type_)[0]
        if item is str:
            return KeyKind.LIST, item
        if get_args(item) == (str, str):
            return KeyKind.PAIRS, item
        if issubclass(item, BaseModel) and len(item.model_fields) == 2:
            return KeyKind.PAIRS, item
    elif get_origin(type_) is Literal:
        return KeyKind.CHOICE, type_
    elif issubclass(type_, SecretStr | SecretBytes):
        return KeyKind.SECRET, type_
    elif issubclass(type_, Enum):
        return KeyKind.CHOICE, type_
    elif type_ is int and name.endswith(("_ns", "_ms")):
        return KeyKind.WINDOW if name == "window_length_ns" else KeyKind.DURATION, type_
    elif type_ is int and name.endswith("_bytes"):
        return KeyKind.SIZE, type_
    elif type_ in _SCALARS:
        return _SCALARS[type_], type_
    raise TypeError(f"the field '{name}' cannot be a key: {type_}")


def _choices(type_: Any) -> tuple[str, ...]:
    return get_args(type_) if get_origin(type_) is Literal else tuple(member.value for member in type_)


_SCALARS: Final = {
    bool: KeyKind.SWITCH,
    int: KeyKind.INTEGER,
    float: KeyKind.NUMBER,
    str: KeyKind.TEXT,
    Path: KeyKind.TEXT,
}

_ZERO: Final = re.compile(r"0+(ms|s|m|h|d|w)?")
_SIZES: Final = ("T", "G", "M", "K")
_UNITS_NS: Final = (
    ("d", 1440 * NS_PER_MINUTE),
    ("h", 60 * NS_PER_MINUTE),
    ("m", NS_PER_MINUTE),
    ("s", NS_PER_SECOND),
)
_NS_PER_MS: Final = 1_000_000


def duration_of(text: str) -> int:
    """Nanoseconds of `1500ms`, `10s`, `5m`, `0s`. Raises ConfigError."""
    return 0 if _ZERO.fullmatch(text.strip()) else parse_duration_ns(text)


def shown_duration(ns: int) -> str:
    """Format a duration in the largest unit that divides it, for `duration_of`; fractions of a millisecond
    are lost."""
    if ns:
        for unit, unit_ns in _UNITS_NS:
            if ns % unit_ns == 0:
                return f"{ns // unit_ns}{unit}"
    return f"{ns // _NS_PER_MS}ms" if ns else "0s"


def size_of(text: str) -> int:
    """Bytes of `512MB`, `1GiB`, `1G`, `4096`: units of 1024. Raises ConfigError."""
    size = parse_size(text)
    if size is None:
        raise ConfigError(f"'{text}' is not a size.", remedy="Write a number and a unit: 64MB, 1GB.")
    return size


def shown_size(n_bytes: int) -> str:
    """Format a size in the largest unit that divides it, for `size_of`."""
    for place, unit in enumerate(_SIZES):
        unit_bytes = 1024 ** (len(_SIZES) - place)
        if n_bytes and n_bytes % unit_bytes == 0:
            return f"{n_bytes // unit_bytes}{unit}B"
    return f"{n_bytes}B"


def nearest(name: str, known: list[str], listed_by: str = "flowdiff config --defaults") -> str:
    """Suggestion of the known name most similar to `name`, by the whole or the last part; else a reference to
    `listed_by`."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    if not close:
        last = {each.rpartition(".")[2]: each for each in reversed(known)}
        close = [last[each] for each in difflib.get_close_matches(name.rpartition(".")[2], list(last), n=1)]
    return f" Did you mean {close[0]}?" if close else f" `{listed_by}` lists them."
