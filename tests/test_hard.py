"""Layers that hide parities and rounded products: right on every input."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from safetensors import safe_open

import gradine
from gradine.cli import main
from gradine.hard import rounded_modulus, sparse_parity


def all_inputs(dim):
    """Every pair of +-1 tokens."""
    bits = np.array(list(itertools.product([-1.0, 1.0], repeat=2 * dim)))
    return bits.reshape(-1, 2, dim)


def all_products(dim, seed=0):
    """Every value of z = x_1 x_2, with a random x_1: outputs depend on z and on one bit of x_1."""
    z = np.array(list(itertools.product([-1.0, 1.0], repeat=dim)))
    first = np.random.default_rng(seed).choice([-1.0, 1.0], z.shape)
    return np.stack([first, first * z], axis=1)


@pytest.mark.parametrize("sparsity", [1, 2, 3, 4])
def test_a_parity_is_right_on_every_input(sparsity):
    hidden = sparse_parity(5, sparsity, seed=sparsity)
    X = all_inputs(5)
    assert np.abs(hidden.layer(X) - hidden(X)).max() < 1e-13
    assert len(hidden.support) == sparsity and hidden.value not in hidden.support


@pytest.mark.parametrize("sparsity", range(1, 7))
def test_a_parity_in_twelve_dimensions(sparsity):
    hidden = sparse_parity(12, sparsity, seed=10 + sparsity)
    X = all_products(12)
    assert np.abs(hidden.layer(X) - hidden(X)).max() < 1e-12
    assert hidden.layer.n_heads == sparsity + 1 + (sparsity % 2 == 0)


@pytest.mark.parametrize("sparsity", [3, 5, 7, 11])
def test_half_as_many_heads_do_for_odd_numbers(sparsity):
    hidden = sparse_parity(12, sparsity, heads=(sparsity + 3) // 2)
    X = all_products(12)
    assert np.abs(hidden.layer(X) - hidden(X)).max() < 1e-9


def test_a_parity_has_no_part_of_low_degree():
    """Its Fourier transform over all inputs: two coefficients, of degree 2 t + 1."""
    hidden, dim = sparse_parity(4, 2, seed=1), 4
    X = all_inputs(dim)
    y = hidden.layer(X)[:, 0, hidden.output]
    flat, found = X.reshape(len(X), -1), {}
    for chosen in itertools.product([0, 1], repeat=2 * dim):
        mask = np.array(chosen, bool)
        coefficient = float(np.mean(y * np.prod(flat[:, mask], axis=1)))
        if abs(coefficient) > 1e-12:
            found[sum(chosen)] = [*found.get(sum(chosen), []), round(coefficient, 12)]
    assert set(found) == {5} and sorted(found[5]) == [-0.5, 0.5]


@pytest.mark.parametrize(("dim", "modulus", "levels"), [(5, 8, 2), (5, 7, 3), (5, 16, 4)])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_rounded_product_is_right_on_every_input(dim, modulus, levels, seed):
    hidden = rounded_modulus(dim, modulus, levels, seed)
    X = all_inputs(dim)
    Y = np.asarray(hidden.layer(X))
    assert np.abs(Y - hidden(X)).max() < 1e-6 * levels
    shows = X[:, 0, hidden.value] != X[:, 1, hidden.value]
    v = hidden.product(X[shows])
    g = [round(levels / modulus * (int(n) % modulus) + 1e-9) % levels for n in v]
    assert np.array_equal(hidden.decode(X[shows], Y[shows]), g)


@pytest.mark.parametrize("levels", [2, 64, 256])
def test_errors_of_rounding_grow_with_its_levels(levels):
    """e^-15 of the steps on both sides of v: their sizes add up to p at most."""
    hidden = rounded_modulus(7, 256, levels)
    X = all_products(7)
    error = np.abs(hidden.layer(X) - hidden(X)).max()
    assert error < 1.01 * levels * np.exp(-15.0)
    assert levels == 2 or error > 0.3 * levels * np.exp(-15.0)


@pytest.mark.parametrize("hidden", [sparse_parity(8, 3), rounded_modulus(8, 8, 2)])
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((5, 3, 8)), r"X has shape \(5, 3, 8\); expected \(n, 2, 8\)"),
        (np.ones((5, 2, 4)), r"X has shape \(5, 2, 4\); expected \(n, 2, 8\)"),
        (np.ones((2, 8)), r"X has shape \(2, 8\); expected \(n, 2, 8\)"),
        (np.zeros((5, 2, 8)), "X has values other than"),
    ],
)
def test_hidden_functions_take_pairs_of_signs(hidden, X, message):
    with pytest.raises(ValueError, match=message):
        hidden(X)


def test_outputs_that_do_not_fit_are_not_decoded():
    hidden = rounded_modulus(8, 8, 2)
    with pytest.raises(ValueError, match=r"Y has shape \(4, 2, 8\); expected \(5, 2, 8\)"):
        hidden.decode(np.ones((5, 2, 8)), np.ones((4, 2, 8)))


def test_heads_of_rounding_grow_as_predicted():
    heads = [rounded_modulus(61, 256, 4, seed).layer.n_heads for seed in range(5)]
    assert 50 < np.mean(heads) < 70  # p n / 4 = 60


@pytest.mark.parametrize(
    ("work", "named"),
    [
        (lambda: sparse_parity(4, 4), "sparsity is 4"),
        (lambda: sparse_parity(4, 0), "sparsity is 0"),
        (lambda: sparse_parity(1, 1), "dim is 1"),
        (lambda: sparse_parity(8, 5, heads=5), "heads is 5; a parity of 5 bits takes 6 or 4"),
        (lambda: sparse_parity(8, 4, heads=3), "heads is 3; a parity of 4 bits takes 6"),
        (lambda: rounded_modulus(8, 4, 5), "levels is 5"),
        (lambda: rounded_modulus(8, True, 2), "modulus is True"),
        (lambda: rounded_modulus(20, 10**9, 4), "modulus is 1000000000; at dim 20 products take"),
        (lambda: rounded_modulus(200, 256, 256), "dim is 200; .* heads of so many coordinates"),
        (lambda: sparse_parity(10**20, 3), "dim is 1000.*: with 4 heads, the largest dim is 4096"),
        (lambda: rounded_modulus(10**20, 16, 4), "dim is 1000.*: with 2 heads, the largest dim is"),
        (lambda: rounded_modulus(8, 10**20, 4), "modulus is 1000.*; expected at most 1073741824"),
        (lambda: sparse_parity(100_000, 3), "dim is 100000; 4 heads of so many coordinates"),
    ],
)
def test_bad_input_is_named(work, named):
    with pytest.raises(ValueError, match=named):
        work()


def test_the_same_seed_gives_the_same_secret():
    one, same, other = (sparse_parity(20, 4, seed=seed) for seed in (3, 3, 4))
    assert one.support == same.support
    assert np.array_equal(one.layer.theta, same.layer.theta)
    assert one.support != other.support
    assert gradine.hard.sparse_parity is sparse_parity


def test_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    parity = ["hard", "parity", "--dim", "8", "--sparsity"]
    assert main([*parity, "3", "--out", "p.safetensors"]) == 0
    assert "parity of coordinates" in capsys.readouterr().out
    assert gradine.AttentionLayer.load("p.safetensors").n_heads == 4
    rounding = ["hard", "rounding", "--dim", "8", "--modulus", "8", "--levels", "2"]
    assert main([*rounding, "--out", "r.safetensors"]) == 0
    assert "modulo 8" in capsys.readouterr().out
    assert main([*parity, "9", "--out", "q.safetensors"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("gradine: sparsity is 9") and len(err.splitlines()) == 1
    assert not (tmp_path / "q.safetensors").exists()


@pytest.mark.parametrize(
    ("arguments", "secret"),
    [
        (["parity", "--dim", "8", "--sparsity", "3"], "support"),
        (["rounding", "--dim", "8", "--modulus", "8", "--levels", "2"], "secret"),
        (["dial", "flat", "--turn", "0.5"], "breaks"),
    ],
)
def test_the_file_says_what_it_hides(arguments, secret, tmp_path, capsys):
    path = tmp_path / "layer.safetensors"
    assert main(["hard", *arguments, "--seed", "3", "--out", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    layer = gradine.AttentionLayer.load(path)
    sizes = {"heads": layer.n_heads, "dim": layer.dim, "out_dim": layer.out_dim}
    assert told.pop("layer") == {**sizes, "path": str(path)}
    with safe_open(path, framework="numpy") as file:
        assert json.loads(file.metadata()["hard"]) == told
    assert told["family"] == arguments[0] and told["seed"] == 3
    again = {
        "support": list(sparse_parity(8, 3, seed=3).support),
        "secret": rounded_modulus(8, 8, 2, seed=3).secret.tolist(),
        "breaks": "logits_not_flat",
    }
    assert told[secret] == again[secret]


@pytest.mark.parametrize("arguments", [["hard"], ["hard", "knapsack"], ["hard", "parity"]])
def test_usage_is_one_line(arguments, capsys):
    assert main(arguments) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
