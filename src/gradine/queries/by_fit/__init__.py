"""Heads of any rank by random questions and a fit: hardly more rows than unknowns."""
