"""Build trees of spans: identity, parents, orphans, times, nodes (A.6 S1, S2, S4, S8)."""
