"""Ingest streams of a log into the lake, lane by lane."""
