"""Mean time to absorption of a Markov chain by elimination without subtraction (Grassmann, Taksar and
Heyman, 1985).

A chain that is rarely absorbed makes I - P nearly singular: the solution of the linear system loses every
digit, and its sign depends on the processor's kernel. Eliminating state by state, with each pivot computed as
the sum of the probabilities of leaving the state, adds and multiplies numbers of one sign only, so each
result keeps almost all digits, however rare absorption is.
"""

from __future__ import annotations

import numpy as np

from schemas.arrays import F8


def mean_absorption_time(moves: F8, absorbed: F8) -> float:
    """Mean number of steps from state 0 until absorption; inf if absorption cannot be reached.

    moves: [states, states] transition probabilities of the transient states, staying on the diagonal;
    absorbed: [states] probability of absorption in one step. No entry may be negative. O(states³).
    """
    moves, absorbed = moves.copy(), absorbed.copy()
    steps = np.ones(len(absorbed))
    for state in range(len(absorbed) - 1, 0, -1):
        enters = np.flatnonzero(moves[:state, state])
        leaves = absorbed[state] + moves[state, :state].sum()
        if leaves == 0:
            steps[enters] = np.inf
            continue
        share = moves[enters, state] / leaves
        moves[enters, :state] += np.outer(share, moves[state, :state])
        absorbed[enters] += share * absorbed[state]
        steps[enters] += share * steps[state]
    return float(steps[0] / absorbed[0]) if absorbed[0] > 0 else np.inf
