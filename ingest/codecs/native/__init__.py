"""Native activity records, version 1: decoding and encoding."""
