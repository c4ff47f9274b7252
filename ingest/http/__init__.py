"""HTTP requests to addresses that a person set: whoever answers there may be slow or hostile."""
