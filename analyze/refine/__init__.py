"""Refine stored structures by what the whole population shows, for the samples at hand."""
