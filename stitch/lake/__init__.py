"""Keep flows as Parquet by window, with commits that say what is there."""
