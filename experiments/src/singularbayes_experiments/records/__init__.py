"""What a run leaves: records, arrays and checkpoints."""
