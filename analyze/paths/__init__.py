"""Compare whole paths: critical paths, what each edge contributes, and who moved where."""
