"""Export of flows from a lake: as DOT for the original tool, as OTLP and native records for any other."""
