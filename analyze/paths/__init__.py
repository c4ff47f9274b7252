"""Comparison of whole paths: critical paths, contributions of edges, and requests that moved between paths.

Papers are cited as in `analyze.methods`.
"""
