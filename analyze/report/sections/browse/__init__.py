"""How the sections of `flowdiff browse` are shown."""
