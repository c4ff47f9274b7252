"""Native activity records, version 1: both ways."""
