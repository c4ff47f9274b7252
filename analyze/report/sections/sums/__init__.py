"""How the section `sums` is shown."""
