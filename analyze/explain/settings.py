"""Settings of explanations, all in one place."""

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
"""Names of parameters whose values are expected to differ between any two requests (NSDI §5.5): regular
expressions, searched anywhere in the name, without regard to case."""
IDENTIFIER_NAMES: Final = (
    r"version|build|revision|commit|git|sha\b|config.*hash|hash.*config|deploy|release|image|generation"
)
"""A number under such a name is an identifier, not a quantity."""


@dataclass(frozen=True, slots=True)
class ExplainSettings:
    """Bounds on the data read, growth of the tree, and thresholds of reliability."""

    most_requests: int = 2_500
    """Most requests of a class; of more a sample is taken. A difference that 2,500 against 2,500 requests do
    not show at an AUC of 0.65 does not matter."""
    most_read: int = 30_000
    """Most requests of several findings whose parameters are read in one pass, and are in memory together."""
    least_requests: int = 8
    """Fewest requests of a class; with fewer there is no explanation."""
    most_columns: int = 120
    """Most columns of a table. Wider tables lose the columns with most missing values; labels play no part in
    that."""
    blocks: int = 20
    """Time blocks within which labels are permuted."""
    folds: int = 5
    perms: int = 99
    fold_perms: int = 19
    """Permutations at nodes of cross-validation trees: the least p is 1/20, the gate 0.05."""
    bootstraps: int = 20
    gate: float = 0.05
    depth: int = 4
    least_leaf: int = 5
    least_leaf_share: float = 0.02
    min_auc: float = 0.65
    min_stability: float = 0.6
    numeric_bins: int = 64
    """Bins of about 1.6 % of the requests each: finer than the smallest leaf."""
    levels: int = 20
    """Levels of a text column with a code of their own; the others are pooled as `other`."""
    presence: float = 0.95
    """A node's parameters are compared where at least this share of both classes passes the node."""
    known: float = 0.9
    """Share of the requests of a period that pass a node whose value must be known for an identifier."""
    left_over: float = 0.05
    """Share of the requests of a period from which on a value belongs to it: fewer are left over while a
    deployment goes on."""
    few_values: int = 10
    """Distinct values below which a text column is always comparable."""
    alike: float = 0.5
    """Most distinct values, as a share of the requests with a value, of a comparable text column; with more
    its values are ids."""
    ranked: int = 20
    """Number of distinct values of a numeric column, and of its known values in a class, from which on it is
    tested for following time."""
    with_time: float = 0.95
    """Rank correlation with time from which on a number is a clock, a counter or a sequence number."""
    most_background: int = 1_000
    """Requests beside the classes' own, used to recognise identifiers of a period."""
    most_changes: int = 20
    """Most columns for the change of a number from node to node."""
    tie: float = 0.01
    """Relative difference up to which excess gains count as equal: of equal columns the first is taken."""
    same_split: float = 0.8
    """Correlation of two splits' answers from which on they count as the same explanation."""
    twin: float = 0.98
    """Least correlation of two columns' answers that makes them equivalent."""
    as_usual: float = 0.5
    """Ratio of a root split's separation of the reference's usual requests to its separation of the affected
    ones, from which on the split explains nothing new."""
    new: float = 0.2
    """Share by which a root split must separate problem from reference to be new all the same."""
    most_standing: int = 3
    """Trees that may be rejected because they fit ordinary times, before there is no explanation."""
    as_good: float = 0.05
    """Loss of AUC at which a contrast within the period is still preferred: it controls for everything that
    merely changed with time."""
    most_attributes: int = 10
    """Rows retained of the attribute table."""
    ignored: tuple[str, ...] = _DEFAULT_IGNORED
    seed: int = 0


SETTINGS: Final = ExplainSettings()
"""Settings of every explanation."""
