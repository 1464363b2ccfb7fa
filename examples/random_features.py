"""
Heads that are never trained
============================

Random, frozen heads and fitted values: a ridge regression. On targets that do not care for the
order of the keys it beats a random network of the same size, and a mean of the identity helps where
the target is a correlation with the query.
"""

import matplotlib.pyplot as plt
import numpy as np

import gradine
from gradine.features.targets import correlation, on_sphere

# %%
# One query and 8 keys on the sphere of 12 coordinates; the target is the mean of
# :math:`\langle x_0, x_i \rangle \langle \beta, x_i \rangle` over the keys.

X = on_sphere(2300, n_keys=8, dim=12, seed=0)
y = correlation(1, dim=12, seed=0)(X)
X_test, y_test = X[1500:], y[1500:]
models = {
    "random attention": gradine.RandomFeatureAttention(200, random_state=0),
    "with the identity as mean": gradine.RandomFeatureAttention(
        200, mean="identity", random_state=0
    ),
    "random network": gradine.RandomFeatureMLP(2600, random_state=0),
}

# %%
# Test error over the variance of the target, with more and more examples.

figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
counts = (100, 400, 1500)
for name, model in models.items():
    errors = []
    for n in counts:
        model.fit(X[:n], y[:n])
        errors.append(np.mean((model.predict(X_test) - y_test) ** 2) / y.var())
    print(f"{name}: {errors[-1]:.2f} with {counts[-1]} examples")
    ax.plot(counts, errors, "o-", label=name)
ax.set(xscale="log", xlabel="examples", ylabel="test error / variance", ylim=(0, 1.2))
ax.legend(frameon=False)
plt.show()
