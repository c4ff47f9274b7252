"""Compare as Spectroscope was published: mutations, precursors and their ranking."""
