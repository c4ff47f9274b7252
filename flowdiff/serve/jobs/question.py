"""Question to a method: periods, filters, method.

Relative times are resolved to absolute ones once, when the question is asked. The key of a question covers
the content of every window it reads: the same question on the same data is answered once, and a repair or a
late window gives it another key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from flowdiff.samples import EARLIER_WEEKS, asked_samples, one_or_two
from flowdiff.serve.lake_state import Known
from schemas.config import Config
from schemas.errors import ConfigError, PeriodError
from schemas.periods import Period, parse_filter
from schemas.ranges import SAME_WEEKDAY, parse_ranges, weeks_before

MOST_TEXT: Final = 2_000
"""Maximum number of characters in a period or a filter."""
_PAIR: Final = frozenset({"robust", "paper"})
"""Methods that compare two periods and take nothing else."""
_NAMES: Final = ("reference", "problem", "period", "history")
_FILTERS: Final = ("where", "reference_where", "problem_where")


class Question(Config):
    """A method with the samples to analyze; periods are absolute, in the notation of the command line."""

    method: str = "robust"
    reference: tuple[str, ...] = ()
    problem: tuple[str, ...] = ()
    period: tuple[str, ...] = ()
    """Periods of the only sample, for methods that take one sample."""
    history: tuple[str, ...] = ()
    where: str = ""
    reference_where: str = ""
    problem_where: str = ""

    @property
    def own_where(self) -> dict[str, str]:
        """Filters that apply to one sample only: name of the sample -> filter."""
        given = {"reference": self.reference_where, "problem": self.problem_where}
        return {name: text for name, text in given.items() if text}

    def samples(self) -> dict[str, list[str]]:
        """Sample name -> texts of its periods. Raises ConfigError."""
        if self.method in _PAIR:
            for name, texts in (("reference", self.reference), ("problem", self.problem)):
                if not texts:
                    raise ConfigError(f"The period '{name}' is missing.", remedy="Name two periods.")
            return asked_samples(self.reference, self.problem, ())
        return one_or_two(self.period, self.reference, self.problem, self.own_where)

    @property
    def parameters(self) -> dict[str, str | list[str]]:
        """Parameters of a page's address for the question's periods and filters."""
        lists = {name: [*getattr(self, name)] for name in _NAMES}
        return {**lists, **{name: str(getattr(self, name)) for name in _FILTERS}}

    @property
    def address(self) -> dict[str, str | list[str]]:
        """Parameters of a page's address for the question: `parameters`, and the method unless it is the
        default.
        """
        return ({} if self.method == "robust" else {"method": self.method}) | self.parameters

    @property
    def title(self) -> str:
        """Text of the periods: `A → B`, or `all`."""
        sides = [", ".join(side) for side in (self.reference, self.problem, self.period) if side]
        return " → ".join(sides) or "all"


def asked_question(
    method: str, given: Mapping[str, Sequence[str]], known: Known, now_ns: int
) -> Question | None:
    """Make a question from an address or a form; None if no period is given.

    Raises PeriodError for an invalid period or filter, or a period of another lake; ConfigError.
    """
    texts = {name: [one.strip() for one in given.get(name, ()) if one.strip()] for name in _NAMES}
    filters = {name: (given.get(name) or [""])[-1].strip() for name in _FILTERS}
    for text in (*filters.values(), *(one for many in texts.values() for one in many)):
        if len(text) > MOST_TEXT:
            raise ConfigError(f"A period or filter has at most {MOST_TEXT} characters.")
    if not any(texts[name] for name in ("reference", "problem", "period")):
        return None
    for text in filters.values():
        if text:
            parse_filter(text)
    anchor = _ranges(texts["problem"], now_ns)
    found = {name: _ranges(texts[name], now_ns, anchor) for name in ("reference", "problem", "period")}
    history = _ranges(texts["history"], now_ns, anchor, (1, *EARLIER_WEEKS))
    if not history and anchor and SAME_WEEKDAY in [text.lower() for text in texts["reference"]]:
        history = tuple(weeks_before(anchor, EARLIER_WEEKS))
    found["history"] = tuple(one for one in history if _touches(known, one))
    written = {name: tuple(period.text for period in periods) for name, periods in found.items()}
    question = Question.model_validate({"method": method, **written, **filters})
    question.samples()  # raises now if data are missing
    return question


def _ranges(
    texts: Sequence[str], now_ns: int, anchor: Sequence[Period] = (), weeks: Iterable[int] = (1,)
) -> tuple[Period, ...]:
    if not texts:
        return ()
    found = parse_ranges(texts, now_ns=now_ns, beside=anchor, weeks=weeks)
    if any(period.lake is not None for period in found):
        raise PeriodError(
            "Periods of other lakes are not served.", remedy="Write the time alone, without `@`."
        )
    return found


def _touches(known: Known, period: Period) -> bool:
    return any(period.holds(entry.window) for entry in known.windows)


def identity(question: Question, known: Known, version: str) -> str:
    """Key of a question, 32 hex digits: a hash of the question, of the content of the windows that it reads,
    and of `version`."""
    digest = hashlib.sha256(f"{version}\n{known.lake}\n{question.model_dump_json()}\n".encode())
    names = [*_NAMES] if any(getattr(question, name) for name in _NAMES[:3]) else []
    texts = [text for name in names for text in getattr(question, name)]
    periods = parse_ranges(texts, now_ns=0) if texts else ()
    for entry in known.windows:
        if not periods or any(period.holds(entry.window) for period in periods):
            digest.update(
                f"{entry.window.start_ns} {entry.flows} {entry.files} {entry.size} {entry.commits};".encode()
            )
    return digest.hexdigest()[:32]
