"""Layers of which one coordinate of the last row is visible."""
