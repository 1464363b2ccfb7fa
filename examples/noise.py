"""
Noise, and error bars
=====================

With noise in the labels, the noise is estimated, and each head gets an error bar. Here the bars are
held against the truth, which the learner does not see.
"""

import matplotlib.pyplot as plt
import numpy as np

import gradine

truth = gradine.plant(heads=2, dim=6, scale=2.0, seed=1)
X = gradine.sample_inputs(1200, seq_len=3, dim=6, seed=2)
Y = truth(X)
white = np.sqrt(np.mean(Y**2)) * np.random.default_rng(3).standard_normal(Y.shape)

# %%
# Three levels of noise, relative to the outputs.

levels = (0.003, 0.02, 0.1)
errors, bars, found = [], [], []
for level in levels:
    fit = gradine.learn(X, Y + level * white, heads=2)
    match = gradine.compare(fit.layer, truth, seq_len=3)
    errors.append(match.theta_error)
    bars.append(np.array(fit.certificate.bars.theta)[match.order])
    found.append(fit.certificate.bars.noise)
    print(f"noise {level}: found {found[-1]:.4f}, {fit.status.code}")

# %%
# Errors follow the noise, and the bars follow the errors.

figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for head in range(2):
    ax.plot(
        levels, np.array(errors)[:, head], "o", color=f"C{head}", label=f"head {head + 1}: error"
    )
    ax.plot(levels, np.array(bars)[:, head], "-", color=f"C{head}", label=f"head {head + 1}: bar")
ax.set(xscale="log", yscale="log", xlabel="noise of the labels", ylabel="of theta, relative")
ax.legend(frameon=False)
plt.show()
