"""Analysis methods behind one port (`port`), one folder per method."""
