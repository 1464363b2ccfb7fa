"""Optimisation problems the learners are made of; the only importers of solver libraries."""
