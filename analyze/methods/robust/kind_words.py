"""Texts for each kind of change, one row of KIND_WORDS each.

A new kind needs a member of `ChangeKind` in `schemas.report.findings`, a row here, and a measure in
`measures.registry` that reports it.
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
"""Share of requests, in [0, 1], below which a text says that none are left."""


@dataclass(frozen=True, slots=True)
class Said:
    """Change and facts about its call site: the input for sentences about the change."""

    what: str
    """Name of the call site as the sentence's subject, e.g. `cart/GET /cart`."""
    change: Change
    is_between: bool
    """True if the site's own time passes between a caller and a recorded callee, i.e. in the network or a
    queue."""
    is_step: bool
    """True for a step between trace points of activity records, False for a call."""
    waits: bool
    """True if the site calls a component that records no spans; its own time is then a wait for that
    component."""
    path: Callable[[], tuple[str, str]]
    """Function that returns two phrases for the changed call pattern, e.g. (`calls X`, `calling X`)."""

    @property
    def percents(self) -> tuple[str, str]:
        """Shares before and after as texts, e.g. (`1.2 %`, `35 %`)."""
        return wording.percent(self.change.before), wording.percent(self.change.after)

    @property
    def whole(self) -> str:
        """Word for the denominator of the change's share: `calls` or `requests`."""
        return "calls" if self.change.of_calls else "requests"

    @property
    def shares(self) -> str:
        """Phrase for the share after and the share that it is compared with, e.g. `35 % of its requests, was
        1.2 %`."""
        before, now = self.percents
        return f"{now} of its {self.whole}, {self.against(before)}"

    def against(self, before: str) -> str:
        """Phrase for the value that the value after is compared with: `was X`, or `X expected from its
        siblings` for a change on an instance."""
        if self.change.instance is not None:
            return f"{before} expected from its siblings"
        return f"was {before} in the history" if self.change.of_history else f"was {before}"


@dataclass(frozen=True, slots=True)
class KindWords:
    """Texts and signs for one kind of change."""

    tag: str
    tone: str
    """Name of the colour class for a kind that is always good or always bad, e.g. `worse`; empty for other
    kinds."""
    numbers: str
    """Phrase for the quantity that `before` and `after` are values of, e.g. `median over requests`."""
    verdict: str
    """Verdict in capitals for a report whose first finding has this kind, e.g. `SLOWER`."""
    sign: str
    """Character that marks the kind in the picture of calls."""
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
