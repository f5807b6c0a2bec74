"""The command line of the experiments, one file per command."""
