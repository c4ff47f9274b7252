"""Build windows of a second lake from the logs of a lake that ingests live."""
