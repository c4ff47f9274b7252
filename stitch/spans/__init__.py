"""Build trees of spans: identity, parents, orphans, times, nodes."""
