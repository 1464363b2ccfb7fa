"""Beyond the theorem: heads counted by moments, then found exactly by nonlinear least squares."""
