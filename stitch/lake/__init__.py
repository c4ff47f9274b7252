"""Keep flows as Parquet by window, with commits that list the files."""
