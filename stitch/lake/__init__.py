"""The lake on disk: layout, commits, Parquet writer."""
