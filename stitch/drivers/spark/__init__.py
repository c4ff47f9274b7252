"""Tasks on a Spark cluster."""
