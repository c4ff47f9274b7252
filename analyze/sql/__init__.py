"""DuckDB lives here, and only here: one relation a file."""
