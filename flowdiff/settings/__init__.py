"""Settings of long-running commands: a file, the environment and flags merged into one model."""
