"""Asking: oracles, who carries the questions, the log of the answers, and how exact these are."""
