"""Query a lake with DuckDB.

`session` is a locked, read-only session, `session_process` runs one in a child process; `views/` has the
documented views, one file each. Used by commands, the server, `load` and `export`. Raises QueryError,
ConfigError, NotFoundError, InputError.
"""
