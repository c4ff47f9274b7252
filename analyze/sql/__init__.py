"""Query a lake with DuckDB, which else only the native codec uses.

`session` is a locked, read-only session, `session_process` one in a process of its own; `views/` has the
documented views, a file each. Used by commands, the server, `load` and `export`. Raises QueryError,
ConfigError, NotFoundError, InputError.
"""
