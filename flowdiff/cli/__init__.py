"""Shared parts of subcommands: options, terminal tables, output, exit codes, running an analysis."""
