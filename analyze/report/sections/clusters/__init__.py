"""Section `clusters`: groups of requests, and their trees on each other."""
