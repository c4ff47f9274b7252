"""Numbers that nobody means: a setting refuses them, or the analysis runs. Neither is a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
from oracles.refined import call, population
from oracles.span_events import T0
from pydantic import ValidationError

from analyze.compare import compare
from analyze.methods.port import AnyMethod, Chosen
from analyze.methods.registry import method_names, method_of
from analyze.paths.settings import PathSettings
from analyze.population import Population, Sample
from analyze.refine.settings import RefineSettings
from schemas.config import Config

METHODS = {name: method_of(name) for name in method_names()}
MODELS: dict[str, type[Config]] = {
    **{name: method.settings for name, method in METHODS.items()},
    "paths": PathSettings,
    "refine": RefineSettings,
}
FLOATS = [
    (name, field)
    for name, model in MODELS.items()
    for field, told in model.model_fields.items()
    if told.annotation in (float, float | None)
]


@pytest.mark.parametrize(("name", "field"), FLOATS)
@pytest.mark.parametrize("value", ["1e300", "-1e300", "inf", "-inf", "nan"])
def test_no_number_is_without_bounds(name: str, field: str, value: str) -> None:
    with pytest.raises(ValidationError):
        MODELS[name].model_validate({field: value})


@cache
def two_periods() -> Population:
    """Sixty requests each, every third slower and without a call in the second; log-medians differ."""
    made = [
        [
            call("web/get", 0, 400 + 7 * (at % 11) + slow, call("db/read", 20, 200 + at % 13))
            if not slow or at % 3
            else call("web/get", 0, 900 + at, call("cache/ask", 10, 30), call("db/read", 40, 800))
            for at in range(60)
        ]
        for slow in (0, 150)
    ]
    hour, second = 3_600 * 10**9, 10**9
    samples = tuple(
        Sample(name, "", T0 + at * hour, T0 + at * hour + 60 * second)
        for at, name in enumerate(("reference", "problem"))
    )
    return replace(population(*made), samples=samples)


def largest(model: type[Config], field: str) -> float | None:
    """What a setting may be at most."""
    told = model.model_fields[field].metadata
    return next((bound.le for bound in told if hasattr(bound, "le")), None)


def allowed() -> Iterator[tuple[str, str, float]]:
    """Every setting of a method at 0, where it may be, and at the most that it may be."""
    for name, field in FLOATS:
        for value in (0.0, largest(MODELS[name], field)):
            if name in METHODS and value is not None and accepts(MODELS[name], field, value):
                yield name, field, value


def accepts(model: type[Config], field: str, value: float) -> bool:
    try:
        model.model_validate({field: value})
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize(("name", "field", "value"), list(allowed()))
def test_what_is_allowed_runs(name: str, field: str, value: float) -> None:
    method: AnyMethod = METHODS[name]
    compare(two_periods(), [Chosen(method, method.settings.model_validate({field: value}))])


def test_extremes_of_most_settings_are_tried() -> None:
    tried = {(name, field) for name, field, _ in allowed()}
    assert len(tried) > len(FLOATS) // 2
