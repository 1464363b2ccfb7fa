"""What Gradine reaches and what it costs, measured: benchmarks.theorem and benchmarks.exact."""
