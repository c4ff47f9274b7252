"""Build DAGs of activity records: strands, splits and joins, explicit parents."""
