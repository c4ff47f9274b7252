"""Models of a report: results of a comparison or a search; frozen, versioned, bounded in size, without NaN
and without the time at which they were made.

One module per section; `report` holds the whole, `report_tables` names the tables beside it.
"""
