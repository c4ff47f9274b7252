"""Parameters that distinguish affected requests from others."""

from __future__ import annotations

from typing import Literal

from schemas.report.parts import Frozen


class Contrast(Frozen):
    """Two classes of requests that are compared with each other."""

    affected: str
    """Description of the class: "problem requests that take the new path"."""
    others: str
    n_affected: int
    n_others: int


class LevelShare(Frozen):
    """Value of an attribute, and its share among the affected and the other requests."""

    value: str
    share_affected: float
    share_others: float


class AttributeRow(Frozen):
    """One parameter: the distance between its values in the two classes."""

    where: str
    """Node with the parameter, `component/point`, or `request`."""
    key: str
    numeric: bool
    distance: float
    """Jensen-Shannon distance (text) or KS statistic (numbers), 0 to 1."""
    p: float
    q: float
    levels: tuple[LevelShare, ...]
    """Text: the three levels whose shares differ most."""
    median_affected: float | None
    median_others: float | None
    """Median among the other requests (`median_affected`: among the affected) of a numeric attribute; None
    for text."""


class Rule(Frozen):
    """One path from the root of the tree to a node, for `rules` a leaf."""

    conditions: tuple[str, ...]
    """Conditions on the path as text, such as `count <= 4096`."""
    n_affected: int
    n_others: int
    purity: float
    """Share of affected requests in the node, classes weighted equally."""
    lift: float


class ChangedIdentifier(Frozen):
    """A parameter with one value a period (build id, configuration hash): often the answer, never a split."""

    where: str
    key: str
    before: str
    after: str


class Explanation(Frozen):
    """Description of the difference between affected and other requests, and its reliability."""

    contrast: Contrast
    reliable: bool
    """True if cross-validated AUC and stability pass."""
    sentence: str
    """`count <= 4096 tells them apart`, or `no reliable explanation`."""
    auc: float | None
    root_stability: float | None
    """Share of bootstrap trees with the same attribute at the root."""
    rules: tuple[Rule, ...]
    attributes: tuple[AttributeRow, ...]
    """Compared parameters, largest distance first."""
    attributes_total: int
    identifiers: tuple[ChangedIdentifier, ...]
    competing: tuple[str, ...]
    """Attributes at the root of other bootstrap trees; empty unless stability is low."""
    excluded: tuple[str, ...]
    """Attributes that the user excluded (`--exclude`)."""
    reason: Literal["", "no-parameters", "too-few", "not-predictive", "unstable"] = ""
    """Cause of unreliability; empty if the explanation is reliable."""
    best: Rule | None = None
    """Node below the root with most affected and fewest other requests, described by `sentence`; None without
    a reliable tree, and in reports older than this field."""
