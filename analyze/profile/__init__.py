"""Profile call sites of many requests: sums and histograms by slot of time, made or read from `stats/`."""
