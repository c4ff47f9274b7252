"""Find what diverges between two classes of instances, and what response time depends on: DISTALYZER."""
