"""Method "variance": find sources of variance of response times (VarianceFinder)."""
