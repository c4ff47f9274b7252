"""Pages, one per file: functions (site, parameters) -> `Answer`."""
