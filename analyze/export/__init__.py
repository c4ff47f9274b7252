"""Export the flows of a lake: as DOT for the released Spectroscope, as OTLP or native records for other
programs."""
