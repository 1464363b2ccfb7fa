"""
The six phases, in pictures
===========================

The theorem's learner on one planted layer, phase by phase. The pictures know the truth; the learner
does not.
"""

import matplotlib.pyplot as plt
import numpy as np

import gradine
from gradine.sculpt.body import slab_normals

truth = gradine.plant(heads=2, dim=10, scale=4.0, seed=0)
X = gradine.sample_inputs(40_000, seq_len=3, dim=10, seed=1)
fit = gradine.learn(X, truth(X), method="sculpt")
print(fit.status.code, *fit.phases)

# %%
# Phase 1: the crude sum
# ----------------------
# Correlating tokens with outputs estimates the sum of the projection matrices. The estimate is
# biased, by less if the query's own token is left out.

W, crude = truth.w.sum(axis=0), fit.phases["crude_sum"]
figure, ax = plt.subplots(figsize=(4.6, 3.8), layout="constrained")
ax.axline((0, 0), slope=1, color="0.7", linewidth=1)
for name, estimate in {"all tokens": crude.paper, "without its own": crude.own_token_free}.items():
    error = np.linalg.norm(estimate - W) / np.linalg.norm(W)
    ax.plot(W.ravel(), estimate.ravel(), "o", markersize=3, label=f"{name}: error {error:.2f}")
ax.set(xlabel="entry of the sum", ylabel="its estimate")
ax.legend(frameon=False)
plt.show()

# %%
# Phase 2: certify and sculpt
# ---------------------------
# Rows on which all heads agree give slabs, and all slabs together leave a body around the heads.
# Here is a plane through both heads, the other direction being random: light where a point keeps
# to the slabs, dark where it leaves them.

plane_origin = truth.theta.mean(axis=0)
along = (truth.theta[1] - truth.theta[0]) / 2
across = np.random.default_rng(0).standard_normal(along.shape)
across -= along * np.vdot(across, along) / np.vdot(along, along)
across *= np.linalg.norm(along) / np.linalg.norm(across)
steps = np.linspace(-1.6, 1.6, 161)


def body_in_the_plane(carved):
    """How far points are from the slabs, in units of their errors: 98% of them are nearer."""
    normals = slab_normals(carved.queries, carved.differences) / carved.sigma[:, None]
    start = normals @ plane_origin.ravel() - carved.offsets / carved.sigma
    by_along, by_across = normals @ along.ravel(), normals @ across.ravel()
    lines = [
        np.quantile(np.abs(start + s * by_along + steps[:, None] * by_across), 0.98, axis=1)
        for s in steps
    ]
    return np.array(lines).T


def show_body(carved, title):
    figure, ax = plt.subplots(figsize=(5.2, 4.2), layout="constrained")
    outside = body_in_the_plane(carved)
    image = ax.pcolormesh(steps, steps, np.log10(outside), cmap="magma_r", vmin=0, vmax=2.5)
    ax.plot([-1, 1], [0, 0], "o", color="tab:cyan", markeredgecolor="k", label="the heads")
    ax.set(xlabel="along the line through the heads", ylabel="across it", title=title)
    ax.legend(loc="upper right")
    figure.colorbar(image, label="outside the slabs, log10 of their errors")
    plt.show()


show_body(fit.phases["sculpt"], "carved with the crude sum")

# %%
# Phase 3: the proxy, and the refined sum
# ---------------------------------------
# Where the body's point nearest to zero sees a clear winner, all heads look at that one token, and
# the output is the token times the sum.

proxy = fit.phases["proxy"]
figure, ax = plt.subplots(figsize=(4.6, 3.8), layout="constrained")
ax.axline((0, 0), slope=1, color="0.7", linewidth=1)
for name, estimate in {"crude": crude.estimate, "refined": proxy.refined_sum}.items():
    error = np.linalg.norm(estimate - W) / np.linalg.norm(W)
    ax.plot(W.ravel(), estimate.ravel(), "o", markersize=3, label=f"{name}: error {error:.1g}")
ax.set(xlabel="entry of the sum", ylabel="its estimate")
ax.legend(frameon=False)
plt.show()

# %%
# Phase 4: sculpt again
# ---------------------
# With the refined sum, the slabs are tighter: the body is thin but along the line of the heads.

show_body(fit.phases["sculpt_again_1"], "carved with the refined sum")

# %%
# Phase 5: the span
# -----------------
# The long directions of the body are the small singular values of the slabs: as many as heads.

span = fit.phases["span"]
figure, ax = plt.subplots(figsize=(5.2, 3.4), layout="constrained")
count = np.arange(1, len(span.spectrum) + 1)
ax.semilogy(count, span.spectrum, "o-", color="0.5", markersize=4)
ax.semilogy(count[: span.heads], span.spectrum[: span.heads], "o", color="tab:orange")
ax.set(xlabel="number", ylabel="singular value", title=f"{span.heads} heads, gap {span.gap:.0f}")
plt.show()

# %%
# Phase 6: search
# ---------------
# Heads are points of the hull, here a line. A net over it and a local search find them; the polish,
# which is no part of the theorem, does the rest.

base, direction = span.base.ravel(), span.directions[0].ravel()
figure, ax = plt.subplots(figsize=(5.6, 2.2), layout="constrained")
answers = {"true": truth.theta, "search": fit.phases["search"].theta, "polish": fit.layer.theta}
for place, theta in enumerate(answers.values()):
    along_hull = (theta.reshape(2, -1) - base) @ direction
    ax.plot(along_hull, [place, place], "o", markersize=8)
ax.set(yticks=range(3), yticklabels=list(answers), ylim=(2.5, -0.5), xlabel="place on the hull")
plt.show()
for name, layer in {"search": fit.theorem, "polish": fit.layer}.items():
    match = gradine.compare(layer, truth, seq_len=3)
    print(f"{name}: theta error {match.theta_error.max():.0e}")
