"""Statistics of arrays, as pure functions. Papers are cited as in `analyze.methods`."""
