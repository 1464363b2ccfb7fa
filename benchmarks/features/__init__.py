"""Random-feature attention, beside scikit-learn and in order: `python -m benchmarks.features`."""
