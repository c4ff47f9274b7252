"""How the sections of `flowdiff variance` are shown."""
