"""Values inside records: attributes, ids, names, parameters, JSON fields."""
