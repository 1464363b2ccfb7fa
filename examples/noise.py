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
X = gradine.sample_inputs(700, seq_len=3, dim=6, seed=2)
Y = truth(X)
white = np.sqrt(np.mean(Y**2)) * np.random.default_rng(3).standard_normal(Y.shape)

# %%
# Three levels of noise, relative to the outputs.

levels = (0.003, 0.02, 0.1)
errors, bars = [], []
for level in levels:
    fit = gradine.learn(X, Y + level * white, heads=2)
    known = fit.certificate.bars
    errors.append(gradine.compare(fit.layer, truth, seq_len=3).theta_error.max())
    bars.append(max(known.theta))
    print(f"noise {level}: found {known.noise:.4f}, {fit.status.code}")

# %%
# Errors follow the noise, and the bars follow the errors.

figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ax.plot(levels, bars, "-", color="0.5", label="largest error bar")
ax.plot(levels, errors, "o", label="largest error")
ax.set(xscale="log", yscale="log", xlabel="noise of the labels", ylabel="of theta, relative")
ax.legend(frameon=False)
plt.show()
