"""VarianceFinder: where response times vary, and why (ALGORITHMS E)."""
