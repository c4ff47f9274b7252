"""Read a lake with DuckDB, which lives here and only here: one relation a file."""
