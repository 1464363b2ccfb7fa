"""Gradient descent on a student of the same architecture, in PyTorch: what one would try first."""
