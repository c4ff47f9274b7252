"""X-Trace reports as JSON."""
