"""Run DISTALYZER: test the features of every study, and find the components of variables on which response
times depend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

import numpy as np

from analyze.methods.distalyze.attention import LogEvidence, components
from analyze.methods.distalyze.component_rows import component_row
from analyze.methods.distalyze.contrasts import Studies, Study, contrast_of
from analyze.methods.distalyze.divergence import Divergence, HeavyTail, divergence, tail_of, tail_weights
from analyze.methods.distalyze.features import FeatureMaker
from analyze.methods.distalyze.settings import DistalyzeSettings
from analyze.population import Population
from analyze.stats.multiple import q_values
from schemas.arrays import F8, I8
from schemas.report.networks import LogType, NetworkComponent

_LOG_TYPES: Final[tuple[LogType, ...]] = ("event", "state")


@dataclass(frozen=True, slots=True)
class TestedStudy:
    """Study with the tests of its two logs."""

    study: Study
    tail: HeavyTail
    """Test for a heavy tail of the response time."""
    weighted: bool
    """True if slow instances are weighted by cost."""
    weight: F8
    """Weights of the instances in the tests, float64[instances]."""
    share: float
    """Share of the study in the summed response-time difference of all studies, in [0, 1]."""
    logs: tuple[LogEvidence, ...]
    """Evidence of the log of events and of the log of states, in this order."""


@dataclass(frozen=True, slots=True)
class DistalyzeRun:
    """Results of DISTALYZER."""

    contrast: Studies
    tested: tuple[TestedStudy, ...]
    """Studies with the tests of their logs."""
    features: int
    """Number of distinct features that were tested."""
    level: float
    """Largest p that is significant after Bonferroni's correction."""
    bh_level: float
    """Largest p that is significant after Benjamini-Hochberg's correction; below 0 if none is."""
    significant: int
    """Number of features with p up to `level`."""
    significant_bh: int
    """Number of features with p up to `bh_level`."""
    components: tuple[NetworkComponent, ...]
    """Components that contain a divergent variable, by rank."""


def distalyze_run(population: Population, settings: DistalyzeSettings) -> DistalyzeRun:
    """Run all studies of a population. Deterministic in its arguments. Raises ConfigError for a contrast that
    is not possible."""
    contrast = contrast_of(population, settings)
    moved = sum(study.moved_us for study in contrast.studies)
    tested = []
    for study in contrast.studies:
        share = study.moved_us / moved if moved > 0 else 1 / len(contrast.studies)
        tested.append(_tested(study, share, contrast.slow, settings))
    listed = [log.tests for one in tested for log in one.logs]
    p = np.concatenate([np.zeros(0), *(tests.p[tests.distinct] for tests in listed)])
    level = settings.alpha / max(len(p), 1)
    by_rate = p[q_values(p) <= settings.alpha] if len(p) else p
    bh_level = float(by_rate.max()) if len(by_rate) else -1.0
    rows = [
        component_row(found, one.study.root, one.share, level, bh_level)
        for one in tested
        for log in one.logs
        for found in components(log, one.weight, level, settings)
    ]
    rows = _in_turn([row for row in rows if row.score > 0])
    return DistalyzeRun(
        contrast,
        tuple(tested),
        len(p),
        level,
        bh_level,
        int((p <= level).sum()),
        len(by_rate),
        tuple(row.model_copy(update={"rank": rank}) for rank, row in enumerate(rows, 1)),
    )


def _in_turn(rows: Sequence[NetworkComponent]) -> list[NetworkComponent]:
    """Merge the components of events and of states alternately, each list sorted by score.

    Scores (DISTALYZER, Algorithm 1) are comparable within one log only: divergence is relative to the log's
    largest |t|, and a shift counts again at each event after it. Components of durations come before
    components of event times: an event's time is the sum of the durations before it, so if a duration
    diverges, the event's time follows it. Otherwise the log whose best component has the larger |t| comes
    first.
    """
    best = sorted(rows, key=lambda row: (-row.score, row.root, row.feature_types))
    lists = [_without_repeats([row for row in best if row.log_type == log_type]) for log_type in _LOG_TYPES]
    lists.sort(key=lambda listed: (not _is_of_durations(listed), -_largest_t(listed[0]) if listed else 0.0))
    turns = zip_longest(*lists)
    return [row for turn in turns for row in turn if row is not None]


def _is_of_durations(rows: Sequence[NetworkComponent]) -> bool:
    """True if the chain of the best component begins with a duration that changed in the direction of the
    response time."""
    if not rows or rows[0].log_type != "state" or not rows[0].chain:
        return False
    end, start = (rows[0].variables[rows[0].chain[place]] for place in (0, -1))
    moves = [
        variable.after - variable.before
        for variable in (start, end)
        if variable.quantity == "us" and variable.before is not None and variable.after is not None
    ]
    return len(moves) == 2 and moves[0] * moves[1] > 0


def _without_repeats(rows: Sequence[NetworkComponent]) -> list[NetworkComponent]:
    """Keep the best row for each root type and first variable of the chain.

    Dropped rows differ only in the feature type (mean, final value, value at half), which the retained row
    names in `also`.
    """
    first: dict[tuple[str, str], NetworkComponent] = {}
    for row in rows:
        key = row.root, row.variables[row.chain[-1]].text if row.chain else ""
        known = first.get(key)
        first[key] = (
            row if known is None else known.model_copy(update={"also": (*known.also, *row.feature_types)})
        )
    return list(first.values())


def _largest_t(row: NetworkComponent) -> float:
    return max((abs(v.t) for v in row.variables if v.t is not None and v.divergence > 0), default=0.0)


def _tested(study: Study, share: float, slow: bool, settings: DistalyzeSettings) -> TestedStudy:
    instances = study.instances
    tail = tail_of(study.all_us, study.all_weight)
    weighted = settings.tail_weights == "on" or (settings.tail_weights == "auto" and slow and tail.heavy)
    weight = instances.weight * (tail_weights(instances.performance_us, tail) if weighted else 1.0)
    logs = []
    for log_type in _LOG_TYPES:
        series = study.log(log_type)
        tests = divergence(series, instances, weight)
        kept = _most_diverging(tests, settings.network_variables)
        logs.append(LogEvidence(FeatureMaker.of(series.of_variables(kept), instances), kept, tests))
    return TestedStudy(study, tail, weighted, weight, share, tuple(logs))


def _most_diverging(tests: Divergence, most: int) -> I8:
    """Indices of the variables to use in the networks, ascending: the `most` variables with the largest |t|
    in any feature; all variables if they are fewer."""
    if len(tests.names) <= most:
        return np.arange(len(tests.names), dtype=np.int64)
    largest = np.where(np.isnan(tests.t), 0.0, np.abs(tests.t)).max(axis=0)
    return np.sort(np.argsort(-largest, kind="stable")[:most])
