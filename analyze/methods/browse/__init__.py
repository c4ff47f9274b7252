"""Browse a period: `flowdiff browse`."""
