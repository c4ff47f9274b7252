"""Slow, obvious DISTALYZER: features one instance at a time, refitted trees, Algorithm 1 as printed."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np
from sklearn.tree import DecisionTreeRegressor


def event_features(times: Sequence[float], duration: float) -> dict[str, float]:
    """Features of one event variable in one instance; no times: the variable is absent."""
    if not times:
        return {"Count": 0.0}
    told = {"First": min(times), "Median": median(times), "Last": max(times)}
    found = {f"{name}.Absolute": value for name, value in told.items()}
    if duration > 0:
        found |= {f"{name}.Relative": value / duration for name, value in told.items()}
    return found | {"Count": float(len(times))}


def state_features(readings: Sequence[tuple[float, float]], duration: float) -> dict[str, float]:
    """Features of one state variable in one instance; readings: (time, value)."""
    if not readings:
        return {}
    ordered = sorted(readings, key=lambda reading: reading[0])
    values = [value for _, value in ordered]
    found = {
        "Minimum": min(values),
        "Mean": sum(values) / len(values),
        "Maximum": max(values),
        "Final": values[-1],
    }
    for name, part in (("One-fourth", 0.25), ("Half", 0.5), ("Three-fourth", 0.75)):
        until = [value for time, value in ordered if time <= part * duration]
        if until:
            found[f"{name}.Absolute"] = until[-1]
        found[f"{name}.Relative"] = values[min(int(part * len(values)), len(values) - 1)]
    return found


def refitted(codes: np.ndarray, target: np.ndarray, m: int, least_leaf: int, least_gain: float) -> set[int]:
    """Predictors of one target's tree with this m, fitted by the library. codes: [predictors, instances]."""
    tree = DecisionTreeRegressor(
        min_samples_split=m,
        min_samples_leaf=least_leaf,
        min_impurity_decrease=least_gain * float(np.var(target)),
        random_state=0,
    ).fit(codes.T, target)
    return {int(feature) for feature in tree.tree_.feature if feature >= 0}


def component_score(weight: np.ndarray, divergence: np.ndarray) -> tuple[set[int], float]:
    """Nodes connected with the last one, and Algorithm 1's score with alpha one half: Prim's tree."""
    reached, score = {len(weight) - 1}, 0.0
    while True:
        lines = [
            (float(weight[a, b]), b)
            for a in reached
            for b in range(len(weight))
            if b not in reached and weight[a, b] > 0
        ]
        if not lines:
            return reached, score
        strongest, node = max(lines)
        reached.add(node)
        score += float(divergence[node]) * strongest
