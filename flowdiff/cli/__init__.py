"""Share what subcommands need: options, tables on a terminal, output, exit codes, one run of an analysis."""
