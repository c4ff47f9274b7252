"""Activity records to DAGs: strands, splits and joins, explicit parents (A.1, ARCHITECTURE 4.1)."""
