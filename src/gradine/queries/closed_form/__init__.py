"""Narrow heads in many dimensions, in closed form: no search, no start to be lucky with."""
