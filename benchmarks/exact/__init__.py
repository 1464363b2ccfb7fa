"""What the exact learner reaches and what it costs, measured: `python -m benchmarks.exact`."""
