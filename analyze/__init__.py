"""Lake to reports."""
