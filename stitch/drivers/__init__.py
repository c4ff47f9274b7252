"""Run the stitching kernel on events: from files (batch), from streams of a log (live), or again for late
events (repair)."""
