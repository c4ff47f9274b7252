"""Analysis of a lake: load and refine requests, sum them into profiles, compare, explain, report, export,
watch.

Packages: `sql` (queries), `load` and `refine`, `profile` (sums), `compare` and `methods`, `explain`,
`report`, `export`, `watch`.
"""
