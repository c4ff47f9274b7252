"""Between tests and findings: what changed in the recording or in the load is told as that, not as findings."""
