"""Random features against their definitions, written out."""

from __future__ import annotations

import numpy as np
import pytest

from gradine.features.maps import AttentionMap, NeuronMap


def sequences(n=6, keys=4, dim=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, keys + 1, dim))


def by_definition(matrices, X, activation):
    rows = []
    for tokens in X:
        query, *keys = [np.append(x, 1.0) for x in tokens]
        row = []
        for A in matrices:
            logits = np.array([query @ A @ key for key in keys])
            if activation == "softmax":
                weights = np.exp(logits) / np.exp(logits).sum()
            else:
                weights = np.maximum(logits, 0.0) / len(keys)
            row.append(weights @ np.array(keys))
        rows.append(np.concatenate(row))
    return np.array(rows)


@pytest.mark.parametrize("activation", ["relu", "softmax"])
@pytest.mark.parametrize("mean", ["zero", "identity"])
def test_heads_are_what_the_formula_says(activation, mean):
    heads = AttentionMap.draw(5, 3, mean, activation, np.random.default_rng(1))
    X = sequences()
    np.testing.assert_allclose(heads(X), by_definition(heads.matrices, X, activation), atol=1e-12)
    assert heads.n_features == 20


def test_the_mean_is_the_identity_on_tokens_and_not_on_the_constant():
    zero, identity = (
        AttentionMap.draw(4000, 3, mean, "relu", np.random.default_rng(1)).matrices
        for mean in ("zero", "identity")
    )
    np.testing.assert_allclose(identity - zero, np.broadcast_to(np.diag([1, 1, 1, 0]), zero.shape))
    assert np.std(zero) == pytest.approx(0.5, rel=0.01)


def test_heads_do_not_see_the_order_of_keys_and_neurons_do():
    X = sequences()
    turned = X[:, [0, 4, 1, 3, 2]]
    heads = AttentionMap.draw(5, 3, "zero", "relu", np.random.default_rng(1))
    neurons = NeuronMap.draw(20, 15, np.random.default_rng(1))
    np.testing.assert_allclose(heads(turned), heads(X), atol=1e-12)
    assert np.abs(neurons(turned) - neurons(X)).max() > 0.1


def test_neurons_see_all_tokens_and_a_constant():
    neurons, X = NeuronMap.draw(7, 15, np.random.default_rng(1)), sequences()
    rows = np.concatenate([X.reshape(6, 15), np.ones((6, 1))], axis=1)
    np.testing.assert_allclose(neurons(X), np.maximum(rows @ neurons.weights.T, 0.0), atol=1e-12)


@pytest.mark.parametrize(
    "features",
    [
        AttentionMap.draw(6, 3, "identity", "relu", np.random.default_rng(1)),
        NeuronMap.draw(24, 15, np.random.default_rng(1)),
    ],
    ids=["heads", "neurons"],
)
def test_parts_are_the_whole(features):
    X = sequences()
    parts = [features.part(start, start + 8)(X) for start in (0, 8, 16)]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), features(X), atol=1e-13)


def test_tensors_give_tensors():
    torch = pytest.importorskip("torch")
    heads, X = AttentionMap.draw(5, 3, "zero", "softmax", np.random.default_rng(1)), sequences()
    found = heads(torch.from_numpy(X))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), heads(X), atol=1e-12)
