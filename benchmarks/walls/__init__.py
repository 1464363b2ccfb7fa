"""Where learning becomes hard: examples and time against heads, and against bits of a parity."""
