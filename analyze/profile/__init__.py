"""Profile call sites: sums and histograms by slot of time, made of requests or read from `stats/` (section L)."""
