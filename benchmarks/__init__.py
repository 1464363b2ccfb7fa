"""What Gradine reaches and what it costs, measured: `python -m benchmarks.theorem`."""
