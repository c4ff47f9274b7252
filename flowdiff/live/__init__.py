"""Live ingestion as a process: its loop, its end, metrics and log."""
