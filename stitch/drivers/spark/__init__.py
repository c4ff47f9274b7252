"""Run tasks on a Spark cluster."""
