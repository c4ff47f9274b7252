"""Build trees of spans: identity, parents, orphans, times; convert them to nodes."""
