"""Browsing a period: `flowdiff browse` (ALGORITHMS H)."""
