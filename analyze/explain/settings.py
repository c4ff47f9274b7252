"""Set the defaults of the explanation (ALGORITHMS D.3 to D.5, K), in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_DEFAULT_IGNORED: Final = (
    r"thread",
    r"timestamp|(^|[._-])(time|ts)$",
    r"(trace|span|request|correlation|transaction|message)[._-]?id",
    r"(^|[._-])(port|pid|pointer|ptr|nonce|etag)$",
    r"^address$|(?<!server)[._-]address$",
    r"process[._-]pid",
)
"""Parameters whose values are not expected to be alike in two requests (NSDI §5.5): regular expressions,
looked for anywhere in the name, without regard to case."""
IDENTIFIER_NAMES: Final = (
    r"version|build|revision|commit|git|sha\b|config.*hash|hash.*config|deploy|release|image|generation"
)
"""A number under such a name is an identifier, not a quantity."""


@dataclass(frozen=True, slots=True)
class ExplainSettings:
    """How much is read, how a tree is grown, and what it must show to be believed."""

    most_requests: int = 2_500
    """Of a class; more are sampled. What 2,500 against 2,500 do not show at an AUC of 0.65 is not there."""
    least_requests: int = 8
    """Of a class; with fewer nothing is said."""
    most_columns: int = 120
    """Of a table. Wider tables lose those with most missing values, which looks at no label."""
    blocks: int = 20
    """Time blocks within which labels are permuted."""
    folds: int = 5
    perms: int = 99
    fold_perms: int = 19
    """At the nodes of cross-validation trees: 1/20 is the least p, the gate is 0.05."""
    bootstraps: int = 20
    gate: float = 0.05
    depth: int = 4
    least_leaf: int = 5
    least_leaf_share: float = 0.02
    min_auc: float = 0.65
    min_stability: float = 0.6
    numeric_bins: int = 64
    """Of about 1.6 % of the requests each: finer than the smallest leaf."""
    levels: int = 20
    """Levels of a text column that are kept by name; the rest is `other`."""
    presence: float = 0.95
    """A node's parameters are compared where at least this share of both classes passes the node."""
    most_attributes: int = 10
    """Rows of the attribute table that are kept."""
    ignored: tuple[str, ...] = _DEFAULT_IGNORED
    seed: int = 0
