"""Statistics of arrays, as pure functions."""
