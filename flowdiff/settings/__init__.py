"""Settings of the commands that run for long: a file, the environment and flags into one model."""
