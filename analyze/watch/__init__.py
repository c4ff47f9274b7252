"""Watch a lake: report each change from normal behaviour once, as an incident (`flowdiff watch`).

`watching` opens the lake and commits each decision, `watcher` decides (`detect`, `candidates`, `confirm`),
`slow_lane` compares days and weeks, `lane` defines the commits. Callers: `flowdiff watch`, `flowdiff
incidents`, and pages of the server. Raises LakeError, NotFoundError, PeriodError, TakenError (another process
decided first).
"""
