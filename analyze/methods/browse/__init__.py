"""Method "browse": describe a period (`flowdiff browse`)."""
