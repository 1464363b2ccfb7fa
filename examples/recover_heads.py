"""
Recover a layer, and look at its heads
======================================

A layer is planted, examples flow from it, and the heads are found again from the examples alone.
"""

import matplotlib.pyplot as plt

import gradine

# %%
# Three heads in ten coordinates, and 3,000 sequences of four tokens with what the layer makes of
# them. The number of heads is not told.

truth = gradine.plant(heads=3, dim=10, scale=2.0, seed=1)
X = gradine.sample_inputs(3000, seq_len=4, dim=10, seed=2)
fit = gradine.learn(X, truth(X))
print(fit.status.code, fit.layer)

# %%
# Heads come back in no particular order. `gradine.compare` finds which is which.

match = gradine.compare(fit.layer, truth, seq_len=4)
print(f"largest theta error {match.theta_error.max():.0e}, w error {match.w_error.max():.0e}")

# %%
# The attention matrices, learned above and true below.

learned, true = fit.layer.theta[match.order], truth.canonical().theta
figure, axes = plt.subplots(2, 3, figsize=(7, 4.6), layout="constrained")
largest = abs(true).max()
for row, (name, theta) in enumerate({"learned": learned, "true": true}.items()):
    for head, ax in enumerate(axes[row]):
        image = ax.imshow(theta[head], cmap="RdBu", vmin=-largest, vmax=largest)
        ax.set_title(f"{name} head {head + 1}", fontsize=10)
        ax.set(xticks=[], yticks=[])
figure.colorbar(image, ax=axes, shrink=0.7)
plt.show()
