"""Periods of a comparison: parse text to `Period`, and the filter of `--where` to a small syntax tree.

    [LAKE@]RANGE     RANGE = all | today | yesterday | N days ago | last WEEKDAY | last DURATION
                           | DATE | START/END | START/DURATION

START and END are ISO dates or instants (UTC unless they say otherwise), or times of day, of a lake's latest
day that has them (`dated`); ranges are half open. Days are UTC
days, and `last monday` is the latest one that is over. The clock is an argument. `same-weekday`, a week
before another sample, is a word of lists of ranges (`schemas.ranges`).

    FILTER    = CONDITION { and CONDITION }
    CONDITION = KEY ( = | != | < | <= | > | >= | like ) VALUE  |  KEY in ( VALUE { , VALUE } )
    KEY       = root | kind | status | inner_status | error | duration | host | component | PARAMETER
    PARAMETER = a word (service.version), or in double quotes: "http route", "host"
    VALUE     = a number, a word, or text in single quotes, one in it written twice; of duration: 250ms, 1.5s

`status` is that of the root: `ok` or an error class; `inner_status` that of the earliest node that failed
below a root that is `ok`, and `ok` where there is none; `error` any class of any node that failed, the root
too; `kind` is `spans` or `records`. Words for `and`, `like` and `in` in any case. `like` takes % for any text
and _ for one character. A filter is parsed here and turned into SQL by `analyze.sql.filters`, values bound.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from schemas.errors import ConfigError, PeriodError
from schemas.windows import NS_PER_DAY, NS_PER_SECOND, Window, parse_duration_ns

MAX_TEXT = 4096
"""Maximum length of a period or filter text, characters; a longer one is refused."""

FLOW_KEYS = ("root", "kind", "status", "inner_status", "error", "duration", "host", "component")
"""Filter keys that every request has. The same words in double quotes name parameters."""
DURATION_KEY = "duration"
ERROR_KEY = "error"

_RANGE_REMEDY = (
    "Write START/END or START/DURATION (START an instant, or a time of day as 20:38), a date, yesterday, "
    "'2 days ago', 'last monday', 'last 1h' or all."
)
_MOMENT_REMEDY = (
    "Write an instant (2026-11-19T20:38Z), a time of day (20:38) or a duration before the end (30m)."
)
_DAYS_AGO = re.compile(r"([0-9]{1,6}) days? ago")
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_EPOCH_WEEKDAY = 3
"""Weekday of 1970-01-01, a Thursday, counted from Monday = 0."""
_TIME_OF_DAY = re.compile(r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?Z?")
_INSTANT = re.compile(
    r"^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}(?::\d{2})?)(?::(\d{2})(?:\.(\d{1,9}))?)?)?(Z|[+-]\d{2}:?\d{2})?$"
)


class Operator(StrEnum):
    """Comparison operators of a filter."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    LIKE = "like"
    IN = "in"


class WrittenNumber(float):
    """A number together with its original text, which is compared if the value is text: `1.0` may be a
    version."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> WrittenNumber:
        """Make a number from its text. Raises ValueError if the text is no number."""
        self = super().__new__(cls, text)
        self.text = text
        return self

    def __repr__(self) -> str:
        """Original text."""
        return self.text


@dataclass(frozen=True, slots=True)
class Condition:
    """Condition `key op value` of a filter: a flow matches if the value of any of its nodes satisfies it;
    with `!=`, if no node has an equal value.

    `values` holds one value, or several for `in`. A number is a WrittenNumber, a duration a float of ns,
    everything else text.
    """

    key: str
    operator: Operator
    values: tuple[str | float, ...]
    is_parameter: bool = True
    """True if `key` names a parameter; False if it is one of FLOW_KEYS."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Conjunction of conditions; `text` is the original expression."""

    text: str
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Period:
    """`[start_ns, end_ns)` of a lake, ns since the epoch, optionally narrowed by a filter.

    `lake` is None where the text names none (the caller's default holds). A period of `all` has the
    bounds (-2**63, 2**63 - 1) until `fitted` fits it to the windows there are.
    """

    lake: str | None
    start_ns: int
    end_ns: int
    where: Filter | None = None

    @property
    def text(self) -> str:
        """Range in the notation of the command line, UTC."""
        if (self.start_ns, self.end_ns) == _ALL:
            return "all"
        return f"{format_instant(self.start_ns)}/{format_instant(self.end_ns)}"

    def holds(self, window: Window) -> bool:
        """True if the window and the period overlap."""
        return window.start_ns < self.end_ns and self.start_ns < window.end_ns


_ALL = (-(2**63), 2**63 - 1)


def parse_period(text: str, *, now_ns: int, where: str | None = None) -> Period:
    """Parse `[LAKE@]RANGE` (grammar above) and the filter `where`.

    `today`, `yesterday`, `ago` and `last` are relative to `now_ns` (ns since the epoch): `last 1h` ends at
    `now_ns`; days are UTC days. Raises PeriodError, which says what can be written instead.
    """
    if len(text) > MAX_TEXT:
        raise PeriodError(f"The period is {len(text)} characters long.", remedy=_RANGE_REMEDY)
    lake, _, range_text = text.strip().rpartition("@")
    start_ns, end_ns = _parse_range(range_text.strip(), now_ns)
    _check(start_ns, end_ns, range_text)
    return Period(lake or None, start_ns, end_ns, parse_filter(where) if where is not None else None)


def earlier(period: Period, by_ns: int) -> Period:
    """Period shifted back by `by_ns`. Raises PeriodError beyond the range of 64-bit nanoseconds."""
    start_ns, end_ns = period.start_ns - by_ns, period.end_ns - by_ns
    _check(start_ns, end_ns, f"{by_ns // NS_PER_DAY} days before {period.text}")
    return replace(period, start_ns=start_ns, end_ns=end_ns)


def _check(start_ns: int, end_ns: int, range_text: str) -> None:
    if start_ns >= end_ns:
        raise PeriodError(f"Period '{range_text}' is empty: it ends before it starts.")
    if start_ns < _ALL[0] or end_ns > _ALL[1]:
        raise PeriodError(
            f"Period '{range_text}' leaves what a clock of nanoseconds can tell: 1677-09-22 to 2262-04-11.",
            remedy="Take a shorter period, or all.",
        )
    if (start_ns, end_ns) != _ALL and end_ns - start_ns > _ALL[1]:
        raise PeriodError(
            f"Period '{range_text}' is longer than 292 years.", remedy="Take a shorter period, or all."
        )


def _parse_range(text: str, now_ns: int) -> tuple[int, int]:
    today = now_ns - now_ns % NS_PER_DAY
    word = " ".join(text.lower().split())
    if word == "all":
        return _ALL
    if (ago := _days_ago(word, today // NS_PER_DAY)) is not None:
        return today - ago * NS_PER_DAY, today - (ago - 1) * NS_PER_DAY
    if word.startswith("last "):
        return now_ns - _duration(word[5:], text), now_ns
    start_text, slash, end_text = text.partition("/")
    if not slash:
        start, whole_day = _instant(text, text)
        if not whole_day:
            raise PeriodError(f"'{text}' is an instant, not a period.", remedy=_RANGE_REMEDY)
        return start, start + NS_PER_DAY
    start, _ = _instant(start_text.strip(), text)
    end_text = end_text.strip()
    if re.fullmatch(r"\d+[a-z]+", end_text):
        return start, start + _duration(end_text, text)
    return start, _instant(end_text, text)[0]


def _days_ago(word: str, today: int) -> int | None:
    """Days from the named day to `today` (days since the epoch); None if the word names no day."""
    if word in ("today", "yesterday"):
        return ("today", "yesterday").index(word)
    if match := _DAYS_AGO.fullmatch(word):
        return int(match[1])
    if word.startswith("last ") and word[5:] in _WEEKDAYS:
        return (today + _EPOCH_WEEKDAY - _WEEKDAYS.index(word[5:]) - 1) % 7 + 1
    return None


def has_time_of_day(text: str) -> bool:
    """True if START or END of `[LAKE@]START/END` is a time of day, whose date depends on the end of a
    lake."""
    ends = text.strip().rpartition("@")[2].split("/")
    return len(ends) == 2 and any(_TIME_OF_DAY.fullmatch(end.strip()) for end in ends)


def dated(text: str, end_ns: int) -> str:
    """`[LAKE@]START/END` with times of day replaced by instants: START becomes the last such time before
    `end_ns`, END the first one after START.

    Raises PeriodError for a time of day that no clock shows."""
    lake, at, range_text = text.strip().rpartition("@")
    start, _, end = (part.strip() for part in range_text.partition("/"))
    start_ns = moment_before(start, end_ns) if _TIME_OF_DAY.fullmatch(start) else _instant(start, text)[0]
    if _TIME_OF_DAY.fullmatch(end):
        end = format_instant(moment_before(end, start_ns + NS_PER_DAY))
    return f"{lake}{at}{format_instant(start_ns)}/{end}"


def moment_before(text: str, end_ns: int) -> int:
    """Moment that a text names, ns since the epoch. Raises PeriodError.

    The text is an instant, a time of day (UTC; the last one before `end_ns`), or a duration before `end_ns`.
    """
    word = text.strip()
    try:
        if re.fullmatch(r"[0-9]+[a-z]+", word):
            return end_ns - _duration(word, text)
        if _TIME_OF_DAY.fullmatch(word):
            day = f"{datetime.fromtimestamp(end_ns // NS_PER_SECOND, UTC):%Y-%m-%d}"
            at_ns, _ = _instant(f"{day}T{'0' * (word[1] == ':')}{word}", text)
            return at_ns if at_ns < end_ns else at_ns - NS_PER_DAY
        return _instant(word, text)[0]
    except PeriodError:
        raise PeriodError(f"'{text}' is not a moment.", remedy=_MOMENT_REMEDY) from None


def _duration(text: str, whole: str) -> int:
    try:
        return parse_duration_ns(text)
    except ConfigError as error:
        raise PeriodError(f"Period '{whole}': {error.message}", remedy=_RANGE_REMEDY) from None


def _instant(text: str, whole: str) -> tuple[int, bool]:
    """Parse an instant to (ns since the epoch, True if the text is a date without a time)."""
    match = _INSTANT.match(text)
    if match is None:
        raise PeriodError(f"'{whole}' is not a period.", remedy=_RANGE_REMEDY)
    day, minute, second, fraction, zone = match.groups()
    zone = "+00:00" if zone in (None, "Z") else zone
    minute = f"{minute}:00" if minute and ":" not in minute else minute
    try:
        moment = datetime.fromisoformat(f"{day}T{minute or '00:00'}:{second or '00'}{zone}")
    except ValueError:
        raise PeriodError(f"'{text}' is not a date of the calendar.", remedy=_RANGE_REMEDY) from None
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    whole_seconds = delta.days * 86_400 + delta.seconds
    return whole_seconds * NS_PER_SECOND + int((fraction or "0").ljust(9, "0")), minute is None


def format_instant(ns: int) -> str:
    """ISO 8601 in UTC with as many digits as the value needs: `2026-11-20`, `…T09:05Z`, `…T09:05:01.5Z`."""
    seconds, rest = divmod(ns, NS_PER_SECOND)
    moment = datetime.fromtimestamp(seconds, UTC)
    if rest:
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest:09d}".rstrip("0") + "Z"
    if ns % NS_PER_DAY == 0:
        return f"{moment:%Y-%m-%d}"
    return f"{moment:%Y-%m-%dT%H:%MZ}" if moment.second == 0 else f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def windows_of(period: Period, sealed: Sequence[Window], unsealed: Sequence[Window] = ()) -> list[Window]:
    """Sealed windows that overlap a period, in time order.

    `all`: every sealed one. Raises PeriodError, which lists the windows, if none overlaps, or if a period
    other than `all` overlaps an unsealed one.
    """
    there = f"Sealed windows: {_describe(sealed)}."
    open_ = sorted(window for window in unsealed if period.holds(window))
    if open_ and (period.start_ns, period.end_ns) != _ALL:
        raise PeriodError(
            f"Period {period.text} touches {len(open_)} unsealed windows ({_describe(open_)}).",
            remedy=f"{there} --unsealed takes what is known so far.",
        )
    chosen = sorted(window for window in sealed if period.holds(window))
    if not chosen:
        raise PeriodError(f"Period {period.text} holds no window of the lake.", remedy=there)
    return chosen


def fitted(period: Period, windows: Sequence[Window]) -> Period:
    """Copy of a period in which the open ends of `all` are the ends of the first and last of `windows`; other
    periods are returned unchanged."""
    if (period.start_ns, period.end_ns) != _ALL or not windows:
        return period
    return replace(
        period,
        start_ns=min(window.start_ns for window in windows),
        end_ns=max(window.end_ns for window in windows),
    )


def _describe(windows: Sequence[Window]) -> str:
    """Text with the ranges of adjacent windows; if there are many, the first and the last three."""
    runs: list[tuple[int, int, int]] = []
    for window in sorted(windows):
        if runs and runs[-1][1] == window.start_ns:
            runs[-1] = (runs[-1][0], window.end_ns, runs[-1][2] + 1)
        else:
            runs.append((window.start_ns, window.end_ns, 1))
    texts = [f"{format_instant(a)}/{format_instant(b)} ({n})" for a, b, n in runs]
    if len(texts) > 6:
        texts = [*texts[:3], "…", *texts[-3:]]
    return ", ".join(texts) or "none"


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<text>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")*")
    | (?P<operator><=|>=|!=|=|<|>)
    | (?P<punct>[(),])
    | (?P<number>[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.\-/]))
    | (?P<word>[\w.\-/:@$%*?]+)
    )""",
    re.VERBOSE,
)


_TIME = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|μs|ms|s|m|h)")
_TIME_NS = {"ns": 1, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}


def parse_filter(text: str) -> Filter:
    """Parse a filter, grammar above. Raises PeriodError that says what is wrong and gives an example."""
    if len(text) > MAX_TEXT:
        raise PeriodError(f"The filter is {len(text)} characters long.", remedy="Shorten it.")
    tokens = _tokenize(text)
    reader = _Reader(text, tokens)
    conditions = [reader.condition()]
    while reader.accept("and"):
        conditions.append(reader.condition())
    reader.end()
    return Filter(text.strip(), tuple(conditions))


def _tokenize(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise _filter_error(text, f"cannot read '{text[at:].strip()[:20]}'")
        tokens.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return tokens


def _filter_error(text: str, why: str) -> PeriodError:
    return PeriodError(
        f'Filter "{text.strip()[:200]}": {why}.', remedy="Write: key = 'value' and other_key in ('a', 'b')."
    )


class _Reader:
    """Cursor over the tokens of one filter."""

    def __init__(self, text: str, tokens: list[tuple[str, str]]) -> None:
        self._text = text
        self._tokens = tokens
        self._at = 0

    def _next(self, what: str) -> tuple[str, str]:
        if self._at == len(self._tokens):
            raise _filter_error(self._text, f"it ends where {what} should stand")
        self._at += 1
        return self._tokens[self._at - 1]

    def accept(self, word: str) -> bool:
        """True if the next token is `word` (in any case), which is then consumed."""
        if self._at < len(self._tokens) and self._tokens[self._at][1].lower() == word:
            self._at += 1
            return True
        return False

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise _filter_error(self._text, f"'{self._tokens[self._at][1]}' should be 'and'")

    def condition(self) -> Condition:
        kind, key = self._next("a key")
        if kind == "quoted":
            key = key[1:-1].replace('""', '"')
        elif kind != "word":
            raise _filter_error(self._text, f"'{key}' is not a key")
        _, operator_text = self._next("an operator")
        try:
            operator = Operator(operator_text.lower())
        except ValueError:
            raise _filter_error(self._text, f"'{operator_text}' is not an operator") from None
        values = self._list() if operator is Operator.IN else (self._value(),)
        is_parameter = kind == "quoted" or key not in FLOW_KEYS
        if key == DURATION_KEY and not is_parameter:
            values = self._durations(operator, values)
        elif key == ERROR_KEY and not is_parameter and "ok" in values:
            # No node has this error class, so `error != ok` would keep everything.
            raise _filter_error(self._text, "'ok' is no error; where anything failed holds: error like '%'")
        elif operator is Operator.LIKE and not isinstance(values[0], str):
            raise _filter_error(self._text, "like takes text")
        return Condition(key, operator, values, is_parameter)

    def _durations(self, operator: Operator, values: tuple[str | float, ...]) -> tuple[float, ...]:
        """Convert the values of a duration condition to nanoseconds."""
        if operator is Operator.LIKE:
            raise _filter_error(self._text, "duration has no like")
        matches = [_TIME.fullmatch(value) if isinstance(value, str) else None for value in values]
        for value, match in zip(values, matches, strict=True):
            if match is None:
                shown = f"{value:g}" if isinstance(value, float) else value
                raise _filter_error(self._text, f"'{shown}' is not a duration: write 250ms, 1.5s, 90us or 2m")
        return tuple(float(match[1]) * _TIME_NS[match[2]] for match in matches if match is not None)

    def _list(self) -> tuple[str | float, ...]:
        if not self.accept("("):
            raise _filter_error(self._text, "'in' takes a list in parentheses")
        values = [self._value()]
        while self.accept(","):
            values.append(self._value())
        if not self.accept(")"):
            raise _filter_error(self._text, "the list of 'in' is not closed")
        return tuple(values)

    def _value(self) -> str | float:
        kind, text = self._next("a value")
        if kind == "text":
            return text[1:-1].replace("''", "'")
        if kind == "number":
            return WrittenNumber(text)
        if kind == "word":
            return text
        raise _filter_error(self._text, f"'{text}' is not a value")
