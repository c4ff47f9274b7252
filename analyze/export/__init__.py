"""Write flows out of the lake again: DOT for the original tool, OTLP and native records for any other."""
