"""Build DAGs of activity records: strands, splits and joins, explicit parents (A.1, ARCHITECTURE 4.1)."""
