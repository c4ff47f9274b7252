"""Population-level refinement of stored structures for the samples at hand."""
