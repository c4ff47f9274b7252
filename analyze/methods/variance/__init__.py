"""Find where response times vary, and why: VarianceFinder."""
