"""What crosses a boundary: ids, windows, Arrow schemas, report model, errors."""
