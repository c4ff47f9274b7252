"""Between tests and findings: what the recording or the load made is told as that, and is no finding."""
