"""What learning by queries reaches and what it costs: `python -m benchmarks.queries`."""
