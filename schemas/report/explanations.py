"""Parameters that distinguish affected requests from others."""

from __future__ import annotations

from typing import Literal

from schemas.report.parts import Frozen


class Contrast(Frozen):
    """The two classes of requests that an explanation separates."""

    affected: str
    """Description of the affected requests, e.g. "problem requests that take the new path"."""
    others: str
    n_affected: int
    n_others: int


class LevelShare(Frozen):
    """Value of an attribute, with its share among the affected and among the other requests."""

    value: str
    share_affected: float
    share_others: float


class AttributeRow(Frozen):
    """Parameter, and the distance between its distributions among affected and other requests."""

    where: str
    """Place of the parameter: node `component/point`, or `request`."""
    key: str
    numeric: bool
    distance: float
    """Distance between the classes, 0 to 1: Jensen-Shannon distance (text) or KS statistic (numbers)."""
    p: float
    q: float
    levels: tuple[LevelShare, ...]
    """Three values of a text parameter whose shares differ most between affected and other requests; empty
    for numbers."""
    median_affected: float | None
    """Median of a numeric attribute among the affected requests; None for a text attribute."""
    median_others: float | None
    """Median of a numeric attribute among the other requests; None for a text attribute."""


class Rule(Frozen):
    """One path of the decision tree from its root to a node; in `Explanation.rules`, to a leaf."""

    conditions: tuple[str, ...]
    """Conditions on the path as text, such as `count <= 4096`."""
    n_affected: int
    n_others: int
    purity: float
    """Share of affected requests in the node, with both classes weighted equally, 0 to 1."""
    lift: float


class ChangedIdentifier(Frozen):
    """Parameter with a single value in each period (build id, configuration hash): often the answer, never a
    split.
    """

    where: str
    key: str
    before: str
    after: str


class Explanation(Frozen):
    """Description of what distinguishes affected requests from the others, and its reliability."""

    contrast: Contrast
    reliable: bool
    """True if the cross-validated AUC and the stability of the tree are high enough."""
    sentence: str
    """The explanation in one sentence: `count <= 4096 tells them apart`, or `no reliable explanation`."""
    auc: float | None
    root_stability: float | None
    """Share of bootstrap trees that split on the same attribute at their root."""
    rules: tuple[Rule, ...]
    attributes: tuple[AttributeRow, ...]
    """Compared parameters, largest distance first."""
    attributes_total: int
    identifiers: tuple[ChangedIdentifier, ...]
    competing: tuple[str, ...]
    """Attributes at the root of other bootstrap trees; empty unless `root_stability` is low."""
    excluded: tuple[str, ...]
    """Attributes that the user excluded (`--exclude`)."""
    reason: Literal["", "no-parameters", "too-few", "not-predictive", "unstable"] = ""
    """Reason why the explanation is not reliable; empty if it is."""
    best: Rule | None = None
    """Node below the root, described by `sentence`, that best separates affected from other requests; None
    without a reliable tree, and in reports older than this field.
    """
