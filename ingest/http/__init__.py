"""Send HTTP requests to addresses from the configuration, whose servers may be slow or hostile."""
