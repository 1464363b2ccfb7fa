"""
What held-out examples prove
============================

An answer counts as learned if examples that took no part in fitting say so. What they say is a
curve: for each error, the share of inputs that may exceed it, at 99% confidence.
"""

import matplotlib.pyplot as plt
import numpy as np

import gradine

truth = gradine.plant(heads=2, dim=6, scale=2.0, seed=1)
X = gradine.sample_inputs(1500, seq_len=3, dim=6, seed=2)
Y = truth(X)

# %%
# One run on clean labels, and one on labels with noise of a hundredth of their size.

noise = 0.01 * np.sqrt(np.mean(Y**2)) * np.random.default_rng(3).standard_normal(Y.shape)
fits = {"no noise": gradine.learn(X, Y), "noise of 1%": gradine.learn(X, Y + noise)}
for name, fit in fits.items():
    print(f"{name}: {fit.status.code}, {fit.certificate.sentence()}")

# %%
# The bound holds at all errors at once, whatever the learner did. It cannot fall below what so many
# held-out examples can show.

figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for name, fit in fits.items():
    certificate = fit.certificate
    ax.step(certificate.eps, certificate.p, where="post", label=name)
ax.set(xscale="log", yscale="log", xlabel="relative error", ylabel="share of inputs above, at most")
ax.legend(frameon=False)
plt.show()

# %%
# Two heads are not one. Asked for one, the run ends without a layer, and there is nothing to
# certify.

wrong = gradine.learn(X, Y, heads=1, method="exact")
print(wrong.status.code, wrong.layer, wrong.certificate)
print(wrong.reason)
