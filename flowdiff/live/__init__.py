"""Live ingestion as a process: its loop, its end, and what it tells while it runs."""
