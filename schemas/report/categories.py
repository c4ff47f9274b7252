"""Section `categories`: every category of the comparison, the most changed first."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from schemas.report.parts import Frozen, KsResult, Moments
from schemas.report.section import Section


class Role(StrEnum):
    """What a category is in a comparison; it may be several."""

    RESPONSE_TIME = "response-time"
    STRUCTURAL = "structural"
    PRECURSOR = "precursor"


class CategoryRow(Frozen):
    """One line of the category table."""

    category: str
    root: str
    canonical: str
    n_nodes: int
    before: Moments
    after: Moments
    ks: KsResult
    roles: tuple[Role, ...]
    change_us: float
    """n1·mean1 - n0·mean0."""


class CategoriesSection(Section):
    """The category table."""

    section: Literal["categories"] = "categories"
    categories: tuple[CategoryRow, ...]
    """By |change_us|."""
    categories_total: int
