"""Watch a lake: report each change against ordinary times once, and nothing else."""
