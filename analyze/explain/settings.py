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
    """Maximum number of requests of a class; larger classes are sampled. A difference that 2,500 requests a
    class do not show at an AUC of 0.65 does not matter.
    """
    most_read: int = 30_000
    """Maximum number of requests whose parameters are in memory at once; findings are explained in batches of
    this size.
    """
    least_requests: int = 8
    """Minimum number of requests of a class; with fewer there is no explanation."""
    most_columns: int = 120
    """Maximum number of columns of a parameter table. Columns with most missing values are dropped first;
    labels are not considered.
    """
    blocks: int = 20
    """Number of time blocks within which labels are permuted."""
    folds: int = 5
    perms: int = 99
    fold_perms: int = 19
    """Number of permutations at a node of a cross-validation tree: the smallest p is 1/20, equal to the gate
    of 0.05.
    """
    bootstraps: int = 20
    gate: float = 0.05
    depth: int = 4
    least_leaf: int = 5
    least_leaf_share: float = 0.02
    min_auc: float = 0.65
    min_stability: float = 0.6
    numeric_bins: int = 64
    """Number of bins of a numeric column, each about 1.6 % of the requests: finer than the smallest leaf."""
    levels: int = 20
    """Number of levels of a text column with a code each; all further levels are pooled as `other`."""
    presence: float = 0.95
    """Share of the requests of both classes that must pass a node for its parameters to be compared."""
    known: float = 0.9
    """Share of a period's requests at a node whose value must be known for the column to identify that
    period.
    """
    left_over: float = 0.05
    """Share of a period's requests above which a value belongs to that period; rarer values are leftovers of
    a deployment in progress.
    """
    few_values: int = 10
    """Number of distinct values below which a text column is always comparable."""
    alike: float = 0.5
    """Largest ratio of distinct values to requests with a value in a comparable text column; columns above it
    hold ids.
    """
    ranked: int = 20
    """Minimum number of distinct values of a numeric column, and of known values in a class, for the column
    to be tested for following time.
    """
    with_time: float = 0.95
    """Rank correlation with time above which a numeric column is a clock, a counter or a sequence number."""
    most_background: int = 1_000
    """Maximum number of requests outside both classes that are read to recognise values that identify a
    period.
    """
    most_changes: int = 20
    """Maximum number of columns that hold the change of a number from node to node."""
    tie: float = 0.01
    """Relative difference up to which the gains of two columns are equal; of equal columns the first is
    split.
    """
    same_split: float = 0.8
    """Smallest correlation of the answers of two splits that makes them the same explanation."""
    twin: float = 0.98
    """Smallest correlation of the answers of two columns that makes the columns equivalent."""
    as_usual: float = 0.5
    """Largest ratio of a root split's separation of ordinary reference requests to its separation of affected
    ones; above it, the split is usual and explains nothing.
    """
    new: float = 0.2
    """Smallest difference of shares between problem and reference at which a root split counts as new
    although it also separates ordinary requests.
    """
    most_standing: int = 3
    """Maximum number of trees rejected because they fit ordinary times; after that there is no explanation.
    """
    as_good: float = 0.05
    """Largest loss of AUC at which a contrast within the problem period is preferred over one between
    periods: it excludes all that merely changed with time.
    """
    most_attributes: int = 10
    """Maximum number of rows kept of the attribute table."""
    ignored: tuple[str, ...] = _DEFAULT_IGNORED
    seed: int = 0


SETTINGS: Final = ExplainSettings()
"""Settings of every explanation."""
