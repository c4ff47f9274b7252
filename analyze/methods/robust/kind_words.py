"""Texts for each kind of change, one row per kind.

A measure of a new kind is a kind in `schemas.report.findings`, a row here and one in `measures.registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from analyze.report import wording
from schemas.report.findings import ChangeKind

if TYPE_CHECKING:
    from analyze.methods.robust.changes import Change

GONE: Final = 0.0005
"""Shares of requests below this, in [0, 1], are worded as none."""


@dataclass(frozen=True, slots=True)
class Said:
    """A change and the name of its call site, as input for sentences.

    is_step: True for a step between records.
    """

    what: str
    """Name of the call site in the sentence."""
    change: Change
    is_between: bool
    """True if the site's self time passes between caller and callee (network, queue)."""
    is_step: bool
    waits: bool
    """True for a call to a component that records no spans, so that its time is waiting."""
    path: Callable[[], tuple[str, str]]
    """Function that returns two texts for the site's call pattern: (`calls X`, `calling X`)."""

    @property
    def percents(self) -> tuple[str, str]:
        """Values of the change as percentages, (before, after)."""
        return wording.percent(self.change.before), wording.percent(self.change.after)

    @property
    def whole(self) -> str:
        """Denominator of the change's share: `calls` or `requests`."""
        return "calls" if self.change.of_calls else "requests"

    @property
    def shares(self) -> str:
        """Text of the share after, with the share before or, for an instance, the expected one."""
        before, now = self.percents
        return f"{now} of its {self.whole}, {self.against(before)}"

    def against(self, before: str) -> str:
        """Text for the value before: `was X`; for an instance `X expected from its siblings`."""
        if self.change.instance is not None:
            return f"{before} expected from its siblings"
        return f"was {before} in the history" if self.change.of_history else f"was {before}"


@dataclass(frozen=True, slots=True)
class KindWords:
    """Texts and signs for one kind of change."""

    tag: str
    tone: str
    """Class of colour for a kind that is good or bad by itself; empty for others."""
    numbers: str
    """Text for the meaning of the values `before` and `after`."""
    verdict: str
    """Verdict in capitals of a report whose first finding has this kind."""
    sign: str
    """Sign of the kind in the picture of calls."""
    sentence: Callable[[Said], str]


def _time(said: Said) -> str:
    before, now = wording.durations(said.change.before, said.change.after)
    if said.is_between:
        return f"{said.what}: between the two {now} pass, {said.against(before)}"
    if said.waits:
        return f"{said.what}: the call takes {now}, {said.against(before)}"
    own = "the step takes" if said.is_step else "its own time is"
    return f"{said.what}: {own} {now}, {said.against(before)}"


def _tail(said: Said) -> str:
    threshold_us = said.change.threshold_us
    over = f" (over {wording.duration(threshold_us)})" if threshold_us else ""
    between = " between the two" if said.is_between else ""
    return f"{said.what}: slow{between}{over} in {said.shares}"


def _errors(said: Said) -> str:
    change = said.change
    if not change.n0:
        fail = "all fail" if change.after > 1 - GONE else f"{said.percents[1]} of them fail"
        return f"new: {said.what}, {wording.counted(change.n1, 'request')}, {fail}"
    return f"{said.what} fails in {said.shares}"


def _fewer_errors(said: Said) -> str:
    if said.change.after < GONE:
        return f"{said.what} no longer fails (was {said.percents[0]} of its {said.whole})"
    return f"{said.what} fails in {said.shares}"


def _order(how: str) -> Callable[[Said], str]:
    def sentence(said: Said) -> str:
        change = said.change
        return (
            f"{said.what}: its calls run {how}; on average {change.after:.1f} at a time, was "
            f"{change.before:.1f}"
        )

    return sentence


def _calls(said: Said) -> str:
    called = "passed" if said.is_step else "called"
    change = said.change
    return f"{said.what} is {called} {change.after:.1f} times a request, was {change.before:.1f}"


def _path(said: Said) -> str:
    (before, now), (does, doing) = said.percents, said.path()
    if said.change.kind is ChangeKind.LOST_PATH and said.change.after < GONE:
        return f"{said.what} stopped {doing} (was {before} of its {said.whole})"
    share = f"{now} of its {said.whole}" if does.startswith("stopped") else said.shares
    return f"{said.what} {does} in {share}"


_MEDIAN, _CALLS, _TAKEN, _FAILING, _AT_ONCE = (
    "median over requests",
    "calls a request",
    "requests on this path",
    "requests in which it fails",
    "time side by side",
)
KIND_WORDS: Final[Mapping[ChangeKind, KindWords]] = {
    ChangeKind.SLOWER: KindWords("slower", "worse", _MEDIAN, "SLOWER", "▲", _time),
    ChangeKind.FASTER: KindWords("faster", "better", _MEDIAN, "FASTER", "▼", _time),
    ChangeKind.TAIL: KindWords("slow", "worse", "requests over the limit", "SLOWER", "▲", _tail),
    ChangeKind.MORE_CALLS: KindWords("more calls", "", _CALLS, "MORE CALLS", "×", _calls),
    ChangeKind.FEWER_CALLS: KindWords("fewer calls", "", _CALLS, "FEWER CALLS", "×", _calls),
    ChangeKind.PATH: KindWords("other path", "", _TAKEN, "OTHER PATHS", "⇄", _path),
    ChangeKind.NEW_PATH: KindWords("new path", "", _TAKEN, "OTHER PATHS", "⇄", _path),
    ChangeKind.LOST_PATH: KindWords("path gone", "", _TAKEN, "OTHER PATHS", "⇄", _path),
    ChangeKind.ERRORS: KindWords("fails", "failing", _FAILING, "FAILING", "!", _errors),
    ChangeKind.FEWER_ERRORS: KindWords("fails less", "better", _FAILING, "FAILING LESS", "✓", _fewer_errors),
    ChangeKind.SERIAL: KindWords(
        "one after the other", "", _AT_ONCE, "SLOWER", "≡", _order("one after the other")
    ),
    ChangeKind.PARALLEL: KindWords("side by side", "", _AT_ONCE, "FASTER", "∥", _order("side by side")),
}
