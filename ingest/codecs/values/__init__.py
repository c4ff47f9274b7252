"""Values in records: attributes, ids, names, parameters, JSON fields."""
