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
"""Regular expressions for names of parameters whose values are expected to differ between any two requests
(NSDI §5.5); searched anywhere in the name, ignoring case."""
IDENTIFIER_NAMES: Final = (
    r"version|build|revision|commit|git|sha\b|config.*hash|hash.*config|deploy|release|image|generation"
)
"""Regular expression for names of identifiers: a number under such a name is not a quantity."""


@dataclass(frozen=True, slots=True)
class ExplainSettings:
    """Bounds on the data read, growth of the tree, and thresholds of reliability."""

    most_requests: int = 2_500
    """Maximum number of requests of a class; larger classes are sampled. A difference that 2,500 against
    2,500 requests do not show at an AUC of 0.65 does not matter."""
    most_read: int = 30_000
    """Maximum number of requests, of several findings together, whose parameters and hosts are read in one
    pass and held in memory at once."""
    least_requests: int = 8
    """Minimum number of requests of a class; for fewer there is no explanation."""
    most_columns: int = 120
    """Maximum number of columns of a table. Wider tables lose the columns with most missing values, whatever
    the labels."""
    blocks: int = 20
    """Number of time blocks; labels are permuted within a block."""
    folds: int = 5
    perms: int = 99
    fold_perms: int = 19
    """Number of permutations at nodes of cross-validation trees: the smallest p is then 1/20, equal to
    `gate`."""
    bootstraps: int = 20
    gate: float = 0.05
    depth: int = 4
    least_leaf: int = 5
    least_leaf_share: float = 0.02
    min_auc: float = 0.65
    min_stability: float = 0.6
    numeric_bins: int = 64
    """Maximum number of bins of a numeric column, about 1.6 % of the requests each: finer than the smallest
    leaf."""
    levels: int = 20
    """Maximum number of words of a text column with separate codes; the others are pooled as `other`."""
    presence: float = 0.95
    """Share of both classes that must pass a node for its parameters to be compared, in [0, 1]."""
    known: float = 0.9
    """Share of a period's requests that pass a node for which a parameter must be known to be an
    identifier."""
    left_over: float = 0.05
    """Minimum share of a period's requests for a value to count as a value of that period: requests that
    still have the old value while a deployment goes on are fewer."""
    few_values: int = 10
    """Number of distinct values below which a text column can always be compared."""
    alike: float = 0.5
    """Maximum ratio of distinct values to requests with a value for a text column to be compared; above it
    the values are ids."""
    ranked: int = 20
    """Minimum number of distinct values of a numeric column, and of its known values in a class, for the test
    whether it follows time (`with_time`)."""
    with_time: float = 0.95
    """Absolute rank correlation with time above which a number is a clock, a counter or a sequence number."""
    most_background: int = 1_000
    """Maximum number of further requests, in neither class, that are read to recognise identifiers of a
    period."""
    most_changes: int = 20
    """Maximum number of columns for the change of a number from node to node."""
    tie: float = 0.01
    """Relative difference up to which two gains over chance count as equal; of equal columns the first is
    taken."""
    same_split: float = 0.8
    """Absolute correlation between two splits' answers from which they count as the same explanation."""
    twin: float = 0.98
    """Minimum absolute correlation between two columns' answers that makes the columns equivalent."""
    as_usual: float = 0.5
    """Ratio from which a root split explains nothing new: its separation of the reference's usual requests,
    divided by its separation of the affected ones."""
    new: float = 0.2
    """Difference between the shares of problem and reference on one side of a root split from which the split
    is news even if it exceeds `as_usual`."""
    most_standing: int = 3
    """Maximum number of trees rejected because they fit normal times as well; then there is no
    explanation."""
    as_good: float = 0.05
    """Loss of AUC up to which a contrast within the period is preferred to one with the reference: it
    controls for everything that merely changed with time."""
    most_attributes: int = 10
    """Maximum number of attributes listed in an explanation."""
    ignored: tuple[str, ...] = _DEFAULT_IGNORED
    seed: int = 0


SETTINGS: Final = ExplainSettings()
"""Settings of every explanation."""
