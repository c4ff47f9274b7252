"""The shell: parses, calls, prints; no logic."""
