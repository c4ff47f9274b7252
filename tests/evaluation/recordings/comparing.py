"""Comparisons of a recording as a user would make them, in two modes: with history, and without.

* `a`: reference, and the quiet stretches as history, without those that share an instant with reference or
  problem. Where nothing was recorded before a fault, the stretches are the reference: one of many ranges.
* `b`: reference alone. A fault without one is left out.

Samples are found, loaded and refined for each comparison alone, as the command does it. All quiet pairs of
mode a have the same stretches between them (two are compared, the others are history), so they are loaded
once for all, unless `exact` is asked for; a stretch of more than a minute is then one block of history where
the command may make two of it.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from evaluation.recordings.labelled import Recording
from evaluation.recordings.moved import moved, moved_roots
from evaluation.recordings.naming import CRASH_CODE, CRASHED, Told, told_by
from evaluation.recordings.regroup import regroup

from analyze.compare import compare
from analyze.load import Loaded, load_population
from analyze.methods.port import Chosen
from analyze.methods.registry import method_of
from analyze.population import Population
from analyze.profile.samples import samples_of
from analyze.refine.settings import RefineSettings
from analyze.report.limits import ReportLimits
from flowdiff.samples import find_samples

Mode = Literal["a", "b"]

LIMITS = ReportLimits()


@dataclass(frozen=True, slots=True)
class Asked:
    """A comparison to make."""

    recording: Recording
    lake: Path
    mode: Mode
    reference: str | None
    problem: str
    quiet: bool
    """A pair of quiet stretches."""
    exact: bool = False
    """Load a quiet pair by itself, too."""

    @property
    def history(self) -> tuple[str, ...]:
        """Stretches of ordinary times, by the mode."""
        return self.recording.history(self.reference, self.problem) if self.mode == "a" else ()


@dataclass(frozen=True, slots=True)
class Compared:
    """One comparison by one method."""

    method: str
    told: Told
    requests: tuple[int, int]
    mean_ms: tuple[float | None, float | None]
    moved: tuple[str, ...]
    """Measures, and root types, that plain tests say changed."""
    load_s: float
    analyse_s: float


Settings = Mapping[str, Any]


def chosen_of(name: str, changed: Settings) -> Chosen[Any]:
    """A method with its defaults, or with those that are named in `changed`. Raises ConfigError."""
    method = method_of(name)
    own = {key: value for key, value in changed.items() if key in method.settings.model_fields}
    return Chosen(method, method.settings.model_validate(own))


def perform(asked: Asked, methods: Sequence[str], changed: Settings) -> list[Compared]:
    """The comparison by each method; the samples are loaded once."""
    began = time.perf_counter()
    population, history = loaded(asked)
    load_s = time.perf_counter() - began
    plain = (*moved(population), *moved_roots(population))
    summaries = samples_of(population).summaries()
    sizes = [summary.requests for summary in summaries]
    means = [None if summary.mean_us is None else summary.mean_us / 1e3 for summary in summaries]
    found = []
    for name in methods:
        began = time.perf_counter()
        told = tell(population, history, chosen_of(name, changed))
        spent = time.perf_counter() - began
        found.append(
            Compared(
                name,
                told,
                (sizes[0], sizes[1]),
                (means[0], means[1]),
                plain,
                round(load_s, 3),
                round(spent, 3),
            )
        )
    return found


def tell(population: Population, history: Population | None, chosen: Chosen[Any]) -> Told:
    """What a method tells. A comparison that breaks is a result, too: it must not cost the others."""
    try:
        return told_by(compare(population, [chosen], history=history, limits=LIMITS), population)
    except Exception as error:  # noqa: BLE001 - see above; it is counted, and the run ends with exit 1
        traceback.print_exc()
        return Told((), 0, f"{CRASHED}: {type(error).__name__}", CRASH_CODE)


def loaded(asked: Asked) -> Loaded:
    if asked.quiet and asked.mode == "a" and not asked.exact and asked.reference is not None:
        return _quiet_pair(asked, asked.reference)
    # Without a reference of its own a fault is held against the stretches, each a range of the reference.
    texts = {
        "reference": asked.history if asked.reference is None else [asked.reference],
        "problem": [asked.problem],
    }
    history = () if asked.reference is None else asked.history
    samples = find_samples(texts, history, now_ns=0, lake=str(asked.lake))
    return load_population(samples.compared, RefineSettings(), history=samples.history)


def _quiet_pair(asked: Asked, reference: str) -> Loaded:
    every = _all_quiet(asked.lake, asked.recording.quiet)
    place = {text: at for at, text in enumerate(asked.recording.quiet)}
    others = [place[text] for text in asked.history]
    names = [every.samples[at].name for at in others]
    pair = regroup(every, [[place[reference]], [place[asked.problem]]], ["reference", "problem"])
    return Loaded(pair, regroup(every, [[at] for at in others], names))


@lru_cache(maxsize=1)
def _all_quiet(lake: Path, stretches: tuple[str, ...]) -> Population:
    asked = {f"history {n}": [text] for n, text in enumerate(stretches, 1)}
    samples = find_samples(asked, (), now_ns=0, lake=str(lake))
    return load_population(samples.compared, RefineSettings()).population
