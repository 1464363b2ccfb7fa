"""What Gradine reaches and what it costs, measured: benchmarks.theorem, .exact and .scalar."""
