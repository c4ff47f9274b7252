"""Tables of spans in Parquet files."""
