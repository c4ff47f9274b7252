"""What subcommands share: options, tables on a terminal, output, exit codes, one run of an analysis."""
