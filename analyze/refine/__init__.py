"""Population-level refinement of stored structures for the periods at hand."""
