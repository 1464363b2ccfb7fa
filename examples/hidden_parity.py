"""
A layer that hides a parity
===========================

Two tokens are enough to hide a function that no efficient learner is known for: the parity of a
few secret bits. Nothing of low degree leads a learner to the secret.
"""

import matplotlib.pyplot as plt
import numpy as np

import gradine

# %%
# Six heads hide the parity of five bits among eight. Beside it, a generic layer of as many heads.

hidden = gradine.hard.sparse_parity(dim=8, sparsity=5, seed=0)
generic = gradine.plant(heads=hidden.layer.n_heads, dim=8, scale=3.0, seed=1)
print(hidden.layer, "hides the parity of", hidden.support)

# %%
# With a first token of ones, outputs are functions of the eight bits of the second one. Their
# Fourier coefficients come by a fast Walsh-Hadamard transform over all 256 values of it.

bits = np.array(np.meshgrid(*8 * [[1.0, -1.0]], indexing="ij")).reshape(8, -1).T
pairs = np.stack([np.ones_like(bits), bits], axis=1)


def energy_by_degree(layer):
    values = layer(pairs)[:, 0, hidden.output].reshape(8 * (2,))
    for axis in range(8):
        first, second = np.split(values, 2, axis=axis)
        values = np.concatenate([first + second, first - second], axis=axis) / 2
    degree = np.indices(values.shape).sum(axis=0)
    energy = np.bincount(degree.ravel(), weights=values.ravel() ** 2)
    return energy / energy.sum()


figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
ax.bar(np.arange(9) - 0.2, energy_by_degree(generic), 0.4, label="a generic layer")
ax.bar(np.arange(9) + 0.2, energy_by_degree(hidden.layer), 0.4, label="the hidden parity")
ax.set(xlabel="degree", ylabel="share of the energy", xticks=range(9))
ax.legend(frameon=False)
plt.show()

# %%
# A learner that goes by moments, or by gradients from a small start, has the low degrees to go by.
# For the parity there is nothing in them. The page on the map measures where learners fail.

for name, layer in {"generic": generic, "parity": hidden.layer}.items():
    print(f"{name}: {energy_by_degree(layer)[:4].sum():.0%} of the energy up to degree 3")
