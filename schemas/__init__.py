"""Types that cross package boundaries: ids, windows, Arrow schemas, report model, errors."""
