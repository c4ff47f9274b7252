"""Stretches in which nothing was recorded, in words: the first thing to know of a comparison (J.2).

Whether the service, its clients or their network stood still nobody recorded; that it is no quiet period is
sure. So a problem period with such a stretch is not passed as unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from analyze.population import Sample
from analyze.report.wording import counted, percent
from analyze.stats.silences import Silence
from schemas.periods import format_instant
from schemas.report.accounts import QualityRow
from schemas.windows import NS_PER_SECOND

_REFERENCE, _PROBLEM = 0, 1
_COARSE_NS: Final = 10 * NS_PER_SECOND
"""Of longer stretches whole seconds are told."""
_FINE_NS: Final = NS_PER_SECOND // 1000


def silence_rows(found: Sequence[Sequence[Silence]], samples: Sequence[Sample]) -> Iterator[QualityRow]:
    """A row for each of two samples with a silence; the problem's first."""
    for sample, begin in ((_PROBLEM, ""), (_REFERENCE, "The reference is not normal: ")):
        if not found[sample]:
            continue
        text = f"{begin}{_nothing(samples[sample])} {_stretch(found[sample][0])}"
        if sample == _PROBLEM:
            text = f"{text[0].upper()}{text[1:]} of the problem period"
        text += f"; about {counted(_round(found[sample][0].expected), 'request')} were expected"
        if rest := len(found[sample]) - 1:
            text += f" (and {counted(rest, 'shorter stretch', 'shorter stretches')} like it)"
        yield QualityRow(kind="load", severe=True, text=f"{text}.")


def silence_reason(found: Sequence[Silence], sample: Sample) -> str:
    """Why a problem period with a silence is not unchanged; empty for none."""
    if not found:
        return ""
    share = sum(one.end_ns - one.start_ns for one in found) / max(sample.length_ns, 1)
    return (
        f"In {percent(min(share, 1.0))} of the problem period {_nothing(sample, '')}, and requests were "
        "expected: the service, its clients or the way between them stood still."
    )


def _nothing(sample: Sample, end: str = " from") -> str:
    kept = " that the filter keeps" if sample.where else ""
    return f"no request{kept} was recorded{end}"


def _stretch(silence: Silence) -> str:
    unit = NS_PER_SECOND if silence.end_ns - silence.start_ns >= _COARSE_NS else _FINE_NS
    start, end = (format_instant(round(ns / unit) * unit) for ns in (silence.start_ns, silence.end_ns))
    return f"{start} to {end}"


def _round(expected: float) -> int:
    """Two digits: a rate is not known better."""
    return int(float(f"{expected:.2g}"))
