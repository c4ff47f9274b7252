"""Format numbers and results, in one place for headline, terminal and page."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from schemas.visible import visible as visible

NBSP = "\u00a0"
"""No-break space between a number and its unit."""

MOST_DIGITS: Final = 6
"""Maximum number of digits used to distinguish two durations."""

LEAST_PART: Final = 1e-4
"""Minimum part of a whole that is shown as a number; a smaller part is shown as `< 0.01 %`."""
LEAST_C2: Final = 1e-6
"""Minimum squared coefficient of variation that is shown; a smaller one is a rounding error, shown as 0."""
LEAST_PREFIX: Final = 8
"""Minimum length, in characters, of a common prefix of names for it to be left out."""

_UNITS = ((1e6, "s"), (1e3, "ms"), (1.0, "µs"), (1e-3, "ns"))


def significant(value: float, digits: int = 3) -> str:
    """Format a number with `digits` significant digits; as integer from 1000 on; never with an exponent."""
    if value == 0:
        return "0"
    text = f"{value:.{digits}g}"
    if "e" in text:
        text = f"{value:.0f}" if abs(value) >= 1 else f"{float(text):.12f}".rstrip("0").rstrip(".")
    return text


def duration(us: float | None) -> str:
    """Format a duration: `417 µs`, `12.3 ms`, `4.07 s` (with no-break spaces); `–` for None."""
    return _duration(us, 3)


def _duration(us: float | None, digits: int) -> str:
    if us is None:
        return "–"
    for size, unit in _UNITS:
        if abs(us) >= size * (1 - 0.5 * 10.0**-digits):
            return f"{significant(us / size, digits)}{NBSP}{unit}"
    return f"0{NBSP}µs"


def durations(before: float | None, after: float | None) -> tuple[str, str]:
    """Format two durations with enough digits to distinguish them: `2.7131 s`, `2.7134 s`.

    The texts may still be equal if the durations differ by less than one part in a million.
    """
    for digits in range(3, MOST_DIGITS + 1):
        texts = _duration(before, digits), _duration(after, digits)
        if texts[0] != texts[1] or before == after:
            return texts
    return _duration(before, 3), _duration(after, 3)


def moved_duration(before: float | None, after: float | None) -> str:
    """Format a change of a duration: `2.71 s → 3.4 s`, with the digits of `durations`."""
    return " → ".join(durations(before, after))


def sentence(text: str) -> str:
    """Append a full stop unless the text ends with one; names may end with a full stop (`Recv.`)."""
    return text if text.endswith(".") else f"{text}."


def change(us: float | None) -> str:
    """Format a signed duration: `+467 ms`, `−3 µs`."""
    if us is None:
        return "–"
    sign = "±" if not moves(us) else "+" if us > 0 else "−"
    return sign + duration(abs(us))


def moves(us: float) -> bool:
    """True if a change of `us` µs is large enough to show; `duration` formats smaller changes as 0."""
    return abs(us) >= _UNITS[-1][0] * 0.9995


def percent(share: float | None, *, sign: bool = False) -> str:
    """Format a share: `12 %`, `0.4 %`; with `sign`, `+12 %`."""
    if share is None:
        return "–"
    if share == 0:
        return f"0{NBSP}%"
    value = abs(share * 100)
    # Sums of one share in another order are written alike, also half way between two numbers.
    value = round(value, 9) if value >= 0.05 else value
    digits = f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"
    if 0 < value < 0.05:
        digits = significant(value, 1)
    mark = "" if not float(digits) else "−" if share < 0 else "+" if sign else ""
    return f"{mark}{digits}{NBSP}%"


def part(share: float | None, *, sign: bool = False) -> str:
    """Format a part of a whole like `percent`; a negligible part as `< 0.01 %`."""
    if share is not None and 0 < abs(share) < LEAST_PART:
        return f"<{NBSP}{percent(LEAST_PART)}"
    return percent(share, sign=sign)


def percents(before: float, after: float) -> tuple[str, str]:
    """Format two shares with enough digits to distinguish them: `99.91 %`, `99.94 %`."""
    plain = percent(before), percent(after)
    if plain[0] != plain[1] or before == after:
        return plain
    for digits in range(1, MOST_DIGITS):
        texts = f"{100 * before:.{digits}f}{NBSP}%", f"{100 * after:.{digits}f}{NBSP}%"
        if texts[0] != texts[1]:
            return texts
    return plain


def factor(ratio: float | None) -> str:
    """Format a factor: `×1.3`, `×3e7`."""
    return "–" if ratio is None else f"×{rough(ratio)}"


def c2(value: float | None) -> str:
    """Format a squared coefficient of variation: `2.3`; `–` for None (too few requests)."""
    if value is None:
        return "–"
    return significant(value if value >= LEAST_C2 else 0.0, 2)


def rough(value: float, digits: int = 3) -> str:
    """Format a number with `digits` significant digits: `15,000`; from 100,000 on only its order of
    magnitude: `3e7`."""
    rounded = float(f"{value:.{digits}g}")
    if abs(rounded) < 1e3:
        return significant(value, digits)
    value = rounded
    if abs(value) < 1e5:
        return f"{value:,.0f}"
    return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")


def p_value(p: float | None) -> str:
    """Format a p-value: `0.031`, `4e-12`, `< 1e-300`; `not run` for None."""
    if p is None:
        return "not run"
    if p < 1e-300:
        return "< 1e-300"
    return f"{p:.3f}" if p >= 0.001 else f"{p:.0e}".replace("e-0", "e-")


def short(key: str) -> str:
    """First characters of a category key, like an abbreviated commit id."""
    return key[:10]


def clip(text: str, width: int) -> str:
    """Clip text in the middle to at most `width` characters."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return text[:head] + "…" + text[len(text) - (width - 1 - head) :]


_SEPARATORS: Final = "/.:"


def common_prefix(names: Sequence[str]) -> str:
    """Longest common prefix of names that ends with a separator; empty if shorter than LEAST_PREFIX."""
    if len(names) < 2:
        return ""
    first, last = min(names), max(names)
    pairs = zip(first, last, strict=False)
    alike = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    end = max(first.rfind(separator, 0, alike) for separator in _SEPARATORS) + 1
    return first[:end] if end >= LEAST_PREFIX and all(len(name) > end for name in names) else ""


def after(first: str, name: str) -> str:
    """`name` without the prefix that it shares with `first`, the name shown before it: `…/ShipOrder`."""
    shared = common_prefix([first, name])
    return f"…{shared[-1].strip('.:')}{name[len(shared) :]}" if shared else name


def count(number: int) -> str:
    """Integer with thousands separators: `209,841`."""
    return f"{number:,}"


def about(number: int) -> str:
    """Estimated number with two significant digits: `~2,100`."""
    return f"~{count(int(float(f'{number:.2g}')))}"


REVERSED: Final = "The reference is later than the problem period: swap the two if that is not meant."


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """Number with its noun: `1 mutation`, `3 mutations`."""
    return f"{count(number)} {singular if number == 1 else plural or singular + 's'}"


def listed(words: Sequence[str]) -> str:
    """Join at least one word: `a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def measured_sentence(
    mean0_us: float | None,
    mean1_us: float | None,
    failed: tuple[float | None, float | None] = (None, None),
) -> str:
    """Sentence with the mean response time before and after, and the share of failed requests if it changed;
    makes no claim of significance."""
    if mean0_us is None or mean1_us is None:
        return "One of the periods holds no testable request."
    first, second = durations(mean0_us, mean1_us)
    means = f"{first} → {second}{_by(mean0_us, mean1_us)}" if first != second else f"{first} in both periods"
    text = f"Mean response time {means}"
    before, after = failed
    if before is not None and after is not None and percent(before) != percent(after):
        text += f", failed requests {percent(before)} → {percent(after)}"
    return f"{text}."


def moved_sentence(what: str, before: str, after: str, *, up: bool, by: str = "") -> str:
    """Sentence on a tested change: `Mean response time rose from 17 ms to 27 ms (+57 %)`.

    what: the measure; up: True for `rose`; by: text to append, such as ` (+57 %)`.
    """
    return f"{what} {'rose' if up else 'fell'} from {before} to {after}{by}"


def mean_sentence(before_us: float, after_us: float) -> str:
    """Sentence on a tested change of the mean."""
    before, after = durations(before_us, after_us)
    by = _by(before_us, after_us)
    return moved_sentence("Mean response time", before, after, up=after_us > before_us, by=by)


def _by(before: float, after: float) -> str:
    return f" ({percent(after / before - 1, sign=True)})" if before > 0 and after != before else ""
