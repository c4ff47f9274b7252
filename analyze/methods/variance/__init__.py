"""Find sources of variance of response times: VarianceFinder."""
