"""The report model: one comparison or search; frozen, versioned, bounded in size, without clocks and NaN.

One module a section; `report` holds the whole, `report_tables` names the tables beside it.
"""
