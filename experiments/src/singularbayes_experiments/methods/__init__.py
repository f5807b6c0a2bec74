"""How a problem is trained and scored by every method."""
