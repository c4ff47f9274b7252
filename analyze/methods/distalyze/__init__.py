"""DISTALYZER: what diverges between two classes of instances, and what the response time depends on."""
