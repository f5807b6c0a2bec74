"""Running experiments: one after another, together, or on other machines."""
