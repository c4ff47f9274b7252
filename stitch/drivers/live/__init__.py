"""Ingest the streams of a log (partitions of topics) into lanes of the lake."""
