"""Attributes of given requests, as `value_factors` takes them: hosts and parameters of few values."""

from __future__ import annotations

import numpy as np

from analyze.explain.attribute_column import REQUEST, Column
from analyze.explain.chosen_requests import chosen_rows
from analyze.explain.parameter_columns import parameter_columns
from analyze.explain.request_columns import TYPE, request_columns
from analyze.explain.value_factors import Attribute
from analyze.population import Population
from schemas.arrays import I4, I8

_MOST_LEVELS = 50


def factor_attributes(
    population: Population, category: I4, row: I8, *, component: str | None = None, params: bool = False
) -> tuple[Attribute, ...]:
    """Attributes of requests given by category index and row, [requests] each, in their order.

    component: of hosts only this one's and the entry host. params: parameters too, which reads files for
    every request given (of several values in a request the first); those of more than 50 values are no
    factors. Attributes of one value are left out.
    """
    order = np.lexsort((row, category))
    chosen = chosen_rows(population, category[order], row[order])
    columns = [c for c in request_columns(population, chosen) if c.where != REQUEST or c.key != TYPE]
    if component is not None:
        columns = [c for c in columns if c.where in (REQUEST, component)]
    if params:
        columns += parameter_columns(population, chosen)
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    found = (
        _attribute(column, back)
        for column in columns
        if column.levels is not None and column.aggregate in ("", "first")
    )
    return tuple(attribute for attribute in found if 1 < len(attribute.words) <= _MOST_LEVELS)


def _attribute(column: Column, back: I8) -> Attribute:
    codes = np.where(np.isnan(column.values), -1, column.values).astype(np.int32)[back]
    name = column.key if column.where == REQUEST else f"{column.key} of {column.where}"
    return Attribute(name, codes, column.levels or ())
