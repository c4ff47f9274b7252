"""Live ingestion as a process: its loop, its end, and what it says while it runs."""
