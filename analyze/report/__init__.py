"""Render the results of any method: methods make blocks, renderers show blocks and know no section.

`page`, `terminal`, `markdown` and JSON render; `drawing` makes SVG; `gate` decides the exit code; `store` and
`index` write reports to the lake. Used by methods, commands, pages of the server, notifications and the
watch. Raises ConfigError, KeyError for a section without a view; `store` raises what the lake raises.
"""
