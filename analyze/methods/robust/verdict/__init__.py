"""Say whether anything changed, and how sure that is."""
