"""Data, network and scores of every experiment, one module each."""
