"""
Recover a black box by asking it
================================

The layer answers questions and shows nothing else. It is learned by asking, verified on fresh
questions, and compared with the truth, which nobody but this script knows. Then its owner rounds
the answers, or clips them: what that is worth is measured by the same tool.

Ask only layers that are yours, or whose owner agrees.
"""

import gradine

# %%
# What answers lies behind a function. The learner is told how many coordinates a token has, and
# no more.

secret = gradine.plant(heads=2, dim=8, scale=2.0, seed=1)


def black_box(X):
    """Sequences (n, k, 8) in, outputs (n, k, 8) out."""
    return secret(X)


fit = gradine.learn_by_queries(black_box, dim=8)
assert fit.learned, fit.reason
error = gradine.compare(fit.layer, secret).theta_error.max()
rows = fit.asking.rows_used - fit.asking.verify_rows
print(f"{fit.heads} heads, theta error {error:.0e}, {rows} rows: {fit.certificate.sentence()}")

# %%
# The same layer behind answers that are rounded, or clipped.

for name, veil in {
    "float16": gradine.Rounded(black_box, dtype="float16"),
    "clipped at 1": gradine.Clipped(black_box, largest=1.0),
}.items():
    seen = gradine.learn_by_queries(veil, dim=8)
    error = gradine.compare(seen.candidate, secret).function_error
    print(f"{name:14s} {seen.status.code:20s} function error {error:.0e}")
