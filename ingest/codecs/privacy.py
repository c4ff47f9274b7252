"""Drop, blank or hash the values of parameters whose names are secret, in events and in dead letters.

A pattern is a name with `*` and `?`. It is compared with the whole key and with every part of the key from
after a dot to its end, ignoring case and treating `_` as `-`: `authorization` is also
`http.request.header.Authorization`, `*.token` is `session.token` and `X.Session.Token`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from enum import IntEnum
from fnmatch import translate
from functools import lru_cache
from typing import Any

import msgspec

from ingest.codecs.named_twice import names_twice
from schemas.config import DENIED_PARAMS, ParamRules

REDACTED = "[redacted]"
_HASH_DIGITS = 32
_MAX_PARSED_BYTES = 2**20
"""Maximum bytes of a dead letter that is parsed; a larger one is only searched for secret names."""
_MIN_NAME = 3
"""Minimum length of the literal part of a pattern that can be searched for: a shorter text would match
anywhere."""
_ESCAPE = rb"\u00"
"""Beginning of a JSON escape of a letter, which may hide a name."""
_NAME_FIELDS = ("key", "Key")
"""Names of JSON members whose value is the name of a sibling value: OTLP attributes, Jaeger tags."""
_NOT_THE_VALUE = frozenset({*_NAME_FIELDS, "type", "vType"})


class Keep(IntEnum):
    """Treatment of a parameter: its value is stored, blanked or hashed, or the parameter is left out."""

    PLAIN = 0
    REDACTED = 1
    HASHED = 2
    DROPPED = 3


@lru_cache(maxsize=16)
def privacy_of(rules: ParamRules) -> Privacy:
    """Compile rules; cached."""
    return Privacy(rules)


class Privacy:
    """Rules on secret parameters (ParamRules), compiled for lookups by name."""

    def __init__(self, rules: ParamRules) -> None:
        self._deny = _matcher((*DENIED_PARAMS, *rules.deny))
        self._redact = _matcher(rules.redact)
        self._hash = _matcher(rules.hash)
        self._allow = _matcher(rules.allow)
        self._key = rules.hash_key.get_secret_value() if rules.hash_key is not None else b""
        self._names = _names((*DENIED_PARAMS, *rules.deny, *rules.redact, *rules.hash))
        self._keep = lru_cache(maxsize=10_000)(self._decide)

    def keep(self, key: str) -> Keep:
        """Treatment of the parameter with this key."""
        return self._keep(key)[0]

    def hashed(self, text: str) -> str:
        """Text that replaces a value to be hashed: `hmac:` and 32 hex digits."""
        return "hmac:" + hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()[:_HASH_DIGITS]

    def clean_text(self, text: str) -> str:
        """Blank secret values inside a text, if it is a JSON object or list; other text is returned
        unchanged.

        Text nested too deep to be parsed is blanked as a whole if it may contain a secret name.
        """
        raw = text.encode()
        try:
            clean = self._cleaned(raw)
            return text if clean is None else clean.decode()
        except msgspec.DecodeError:
            return text
        except RecursionError:
            return REDACTED if self._may_hold_names(raw) else text

    def clean_raw(self, raw: bytes) -> bytes | None:
        """Bytes of a dead letter that may be stored: unchanged, or JSON with secret values blanked; None if
        nothing may be stored.

        None if there may be a secret that cannot be located: if rules only allow names, or for a secret name
        in bytes that are no JSON.
        """
        if self._allow is not None:
            return None
        if len(raw) <= _MAX_PARSED_BYTES:
            try:
                clean = self._cleaned(raw)
                return raw if clean is None else clean
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                pass
        return None if self._may_hold_names(raw) else raw

    def _may_hold_names(self, raw: bytes) -> bool:
        return self._names is None or _holds_any(raw, self._names)

    def _decide(self, key: str) -> tuple[Keep, bool]:
        """(Treatment of the parameter with this key, True if the name is also secret inside values)."""
        key = key.lower().replace("_", "-")
        ends = [key, *(key[m.end() :] for m in re.finditer(r"\.", key))]
        for pattern, keep in ((self._deny, Keep.DROPPED), (self._redact, Keep.REDACTED)):
            if _any(pattern, ends):
                return keep, True
        if _any(self._hash, ends):
            return Keep.HASHED, True
        return Keep.PLAIN if self._allow is None or _any(self._allow, ends) else Keep.DROPPED, False

    def _cleaned(self, raw: bytes) -> bytes | None:
        """Rewrite JSON without secret values; None if it has none.

        Of two values under one name the parser keeps only the last; the first is in the original bytes, but
        not in the rewritten ones. Raises msgspec.DecodeError, UnicodeDecodeError, RecursionError.
        """
        root: list[object] = [msgspec.json.decode(raw)]
        found, anew = self._blank(root), msgspec.json.encode(root[0])
        is_hidden = not found and anew != raw and self._may_hold_names(raw) and names_twice(raw)
        return anew if found or is_hidden else None

    def _blank(self, root: list[object]) -> bool:
        """Blank secret values inside `root`, in place; True if there were any.

        Iterative, as JSON may be nested deeper than the recursion limit.
        """
        found = False
        waiting: list[Any] = [root]
        while waiting:
            holder = waiting.pop()
            is_object = isinstance(holder, dict)
            secret = self._secrets(holder) if is_object else ()
            for place, value in holder.items() if is_object else enumerate(holder):
                clean = value
                if secret and place in secret and value is not None:
                    clean = REDACTED
                elif isinstance(value, str):
                    if value[:1] in ("{", "[") and "{" in value:
                        clean = self.clean_text(value)
                elif isinstance(value, list | dict):
                    waiting.append(value)
                if clean is not value:
                    holder[place], found = clean, True
        return found

    def _secrets(self, members: dict[str, Any]) -> list[str]:
        """Names of the members whose values are secret: because of the member's name, or of a sibling whose
        value is a secret name (`_NAME_FIELDS`)."""
        named = next((members[f] for f in _NAME_FIELDS if isinstance(members.get(f), str)), None)
        is_named = named is not None and self._keep(named)[1]
        return [name for name in members if self._keep(name)[1] or (is_named and name not in _NOT_THE_VALUE)]


def _matcher(patterns: Iterable[str]) -> re.Pattern[str] | None:
    plain = [translate(p.lower().replace("_", "-").replace("[", "[[]")) for p in patterns]
    return re.compile("|".join(plain)) if plain else None


def _any(pattern: re.Pattern[str] | None, ends: list[str]) -> bool:
    return pattern is not None and any(pattern.match(end) for end in ends)


def _names(patterns: Iterable[str]) -> tuple[bytes, ...] | None:
    """Longest literal part of each pattern, in lower case and with `-` for `_`; None if any of these is too
    short."""
    parts = [max(re.split(r"[*?]", pattern), key=len).strip(".") for pattern in patterns]
    if any(len(part) < _MIN_NAME for part in parts):
        return None
    return tuple(dict.fromkeys(part.encode().lower().replace(b"_", b"-") for part in parts))


def _holds_any(raw: bytes, names: tuple[bytes, ...]) -> bool:
    """True if the bytes contain one of the names, or an escaped letter. 250 MB/s; a regular expression does
    30."""
    text = raw.lower().replace(b"_", b"-")
    return _ESCAPE in text or any(name in text for name in names)
