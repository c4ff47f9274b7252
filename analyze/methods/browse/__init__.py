"""Browse a period: `flowdiff browse` (ALGORITHMS H)."""
