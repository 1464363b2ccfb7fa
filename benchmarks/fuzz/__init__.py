"""Hostile input: files that lie, arguments that make no sense, and what comes of them."""
