"""Layers from torch and to torch: the same outputs, or a refusal that says what does not fit."""

from __future__ import annotations

import numpy as np
import pytest

from gradine import AttentionLayer, Factors, compare, plant

torch = pytest.importorskip("torch")
MultiheadAttention = torch.nn.MultiheadAttention


def module_with(seed=0, dim=12, heads=3, scale=0.5, separate=False, **options):
    """A module whose weights and biases are all random: torch would leave biases at zero."""
    generator = torch.Generator().manual_seed(seed)
    module = MultiheadAttention(dim, heads, **options).eval()
    if separate:
        unpack(module)
    with torch.no_grad():
        for parameter in module.parameters():
            numbers = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(scale * numbers)
    return module


def unpack(module):
    """Three matrices instead of the packed one; the forward pass goes by the flag."""
    dim = module.embed_dim
    module._qkv_same_embed_dim = False
    module.in_proj_weight = None
    for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
        setattr(module, name, torch.nn.Parameter(torch.zeros(dim, dim)))


def outputs_of(module, X):
    """What the module makes of (n, k, d) tokens, whichever axis it has first."""
    tokens = X if module.batch_first else X.transpose(0, 1)
    with torch.no_grad():
        Y, _ = module(tokens, tokens, tokens)
    return Y if module.batch_first else Y.transpose(0, 1)


def tokens(n=6, k=5, dim=12, seed=1, dtype=torch.float32):
    return torch.randn((n, k, dim), generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_a_module_and_its_layer_agree(bias, batch_first, separate):
    module = module_with(bias=bias, batch_first=batch_first, separate=separate, scale=0.3)
    layer = AttentionLayer.from_torch(module)
    assert (layer.n_heads, layer.dim, layer.constant) == (3, 12, bias)
    assert layer.factors.rank == layer.factors.value_rank == 4
    X = tokens()
    expected = outputs_of(module, X).numpy()
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(layer(X).numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(layer(X.numpy()), expected, atol=1e-6)
    back = layer.to_torch(batch_first=batch_first)
    assert back.batch_first == batch_first and not back.training
    np.testing.assert_allclose(outputs_of(back, X).numpy(), expected, atol=1e-6)


def test_in_double_precision_they_agree_to_rounding():
    module = module_with(dtype=torch.float64, batch_first=True)
    layer, X = AttentionLayer.from_torch(module), tokens(dtype=torch.float64)
    np.testing.assert_allclose(layer(X).numpy(), outputs_of(module, X).numpy(), atol=1e-13)
    weights = module(X, X, X, average_attn_weights=False)[1].detach().numpy()
    np.testing.assert_allclose(layer.attention(X).numpy(), weights, atol=1e-14)
    again = AttentionLayer.from_torch(layer.to_torch(dtype=torch.float64))
    np.testing.assert_allclose(again.theta, layer.theta, atol=1e-14)
    np.testing.assert_allclose(again.w, layer.w, atol=1e-14)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
def test_weights_of_any_float_type_are_taken_as_they_are(name):
    dtype = getattr(torch, name)
    module = module_with(dtype=dtype, batch_first=True)
    layer = AttentionLayer.from_torch(module)
    X = tokens(dtype=torch.float64)
    expected = outputs_of(module.double(), X).numpy()
    np.testing.assert_allclose(layer(X.numpy()), expected, atol=1e-12)
    back = layer.to_torch(dtype=dtype)
    for parameter, original in zip(back.parameters(), module.parameters(), strict=True):
        assert parameter.dtype == dtype
        assert torch.equal(parameter.double(), original)


def test_factors_are_the_weights():
    module = module_with(scale=1.0, dtype=torch.float64)
    factors = AttentionLayer.from_torch(module).factors
    query, key, value = module.in_proj_weight.detach().numpy().reshape(3, 3, 4, 12)
    b_query, b_key, b_value = module.in_proj_bias.detach().numpy().reshape(3, 3, 4)
    np.testing.assert_allclose(factors.queries[1, :12], query[1].T / 2)  # 1 / sqrt(4)
    np.testing.assert_array_equal(factors.queries[1, 12], b_query[1] / 2)
    np.testing.assert_array_equal(factors.keys[2, :12], key[2].T)
    np.testing.assert_array_equal(factors.keys[2, 12], b_key[2])
    np.testing.assert_array_equal(factors.values[0, :12], value[0].T)
    np.testing.assert_array_equal(factors.values[0, 12], b_value[0])
    np.testing.assert_array_equal(factors.outputs[1], module.out_proj.weight.detach().T[4:8])
    np.testing.assert_array_equal(factors.bias, module.out_proj.bias.detach())


def test_dropout_has_no_effect():
    module = module_with(dropout=0.9, batch_first=True)
    layer = AttentionLayer.from_torch(module.train())
    X = tokens()
    np.testing.assert_allclose(layer(X).numpy(), outputs_of(module.eval(), X), atol=1e-6)
    assert layer.to_torch().dropout == 0.0


def test_a_bias_of_the_outputs_alone_counts():
    module = module_with(bias=False, batch_first=True)
    module.out_proj.bias = torch.nn.Parameter(torch.arange(12.0))
    layer, X = AttentionLayer.from_torch(module), tokens()
    assert layer.constant
    np.testing.assert_allclose(layer(X).numpy(), outputs_of(module, X), rtol=1e-6, atol=1e-6)
    module = module_with(batch_first=True, scale=0.3)
    module.out_proj.bias = None
    layer = AttentionLayer.from_torch(module)
    assert layer.constant and layer.factors.bias is None
    np.testing.assert_allclose(layer(X).numpy(), outputs_of(module, X), atol=1e-6)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("rank", [1, 3])
def test_a_layer_without_factors_becomes_a_module(rank, constant, rng):
    shapes = [(3, 12 + constant, rank)] * 3 + [(3, rank, 12)]
    factors = Factors(*(0.4 * rng.normal(size=shape) for shape in shapes))
    w = factors.w()
    w[:, -1] += constant * rng.normal(size=(3, 12))  # unequal shares: a W_i of higher rank
    theta = factors.theta()
    theta[:, :, -1] += constant * rng.normal(size=(3, 13 if constant else 12))
    layer = AttentionLayer(theta, w, constant)
    module = layer.to_torch(dtype=torch.float64)
    assert (module.in_proj_bias is not None) == constant
    X = tokens(dtype=torch.float64)
    np.testing.assert_allclose(outputs_of(module, X), layer(X), atol=1e-12)
    again = AttentionLayer.from_torch(module)
    match = compare(again, layer)
    assert max(match.theta_error.max(), match.w_error.max(), match.function_error) < 1e-12


def test_canonical_and_balanced_forms_become_modules():
    module, X = module_with(dtype=torch.float64, batch_first=True), tokens(dtype=torch.float64)
    layer = AttentionLayer.from_torch(module)
    for form in (layer.canonical(), layer.factored()):
        again = form.to_torch(dtype=torch.float64)
        np.testing.assert_allclose(outputs_of(again, X), outputs_of(module, X), atol=1e-12)


def test_factors_wider_than_they_need_to_be_still_fit(rng):
    narrow = plant(3, 12, rank=4, seed=2).factored()
    factors = narrow.factors
    doubled = AttentionLayer.from_factors(
        Factors(
            np.concatenate([factors.queries, factors.queries], axis=2) / 2,
            np.concatenate([factors.keys, factors.keys], axis=2),
            factors.values,
            factors.outputs,
        )
    )
    assert doubled.factors.rank == 8
    X = tokens(dtype=torch.float64)
    module = doubled.to_torch(dtype=torch.float64)
    np.testing.assert_allclose(outputs_of(module, X), narrow(X), atol=1e-12)


def test_the_random_state_is_left_alone():
    layer = plant(3, 12, rank=4, seed=2)
    before = torch.random.get_rng_state()
    layer.to_torch()
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_module_can_be_trained_on():
    layer = AttentionLayer.from_torch(module_with())
    module = layer.to_torch().train()
    X = tokens()
    module(X, X, X)[0].square().sum().backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in module.parameters())


class Doubled(MultiheadAttention):
    def forward(self, *arguments, **options):
        Y, weights = super().forward(*arguments, **options)
        return 2 * Y, weights


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (torch.nn.Linear(3, 3), "module is a Linear; expected torch.nn.MultiheadAttention"),
        ("model.pt", "module is a str; expected torch.nn.MultiheadAttention"),
        (Doubled(12, 3), "module is a Doubled"),
        (MultiheadAttention(12, 3, kdim=5), "module has kdim 5 and vdim 12; expected 12"),
        (MultiheadAttention(12, 3, kdim=5, vdim=5), "kdim 5 and vdim 5"),
        (MultiheadAttention(12, 3, add_bias_kv=True), "module has add_bias_kv set"),
        (MultiheadAttention(12, 3, add_zero_attn=True), "module has add_zero_attn set"),
        (MultiheadAttention(12, 3, device="meta"), "in_proj_weight is on the meta device"),
    ],
)
def test_what_is_no_self_attention_of_tokens_is_refused(module, message):
    with pytest.raises(ValueError, match=message) as caught:
        AttentionLayer.from_torch(module)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["in_proj_weight", "in_proj_bias", "out_proj.weight"])
def test_weights_that_are_no_numbers_are_refused(name):
    module = module_with()
    with torch.no_grad():
        module.get_parameter(name).view(-1)[3] = float("nan")
    with pytest.raises(ValueError, match=rf"^{name} has NaN"):
        AttentionLayer.from_torch(module)


def test_weights_that_do_not_fit_together_are_refused():
    module = module_with()
    module.out_proj.weight = torch.nn.Parameter(torch.ones(12, 11))
    with pytest.raises(ValueError, match=r"output.weight has shape \(12, 11\); expected"):
        AttentionLayer.from_torch(module)
    module.in_proj_weight = torch.nn.Parameter(torch.ones(35, 12))
    with pytest.raises(ValueError, match="in_proj_weight has 35 rows; expected 3 x 12"):
        AttentionLayer.from_torch(module)
    module.in_proj_weight = torch.nn.Parameter(torch.ones(36, 12).to(torch.int8), False)
    with pytest.raises(ValueError, match=r"in_proj_weight has dtype torch\.int8"):
        AttentionLayer.from_torch(module)


def test_layers_that_do_not_fit_are_refused(biased_layer):
    with pytest.raises(ValueError, match="layer has out_dim 4; expected 5, its dim"):
        biased_layer.to_torch()
    with pytest.raises(ValueError, match="layer has 3 heads; expected a divisor of its dim, 16"):
        plant(3, 16, rank=2).to_torch()
    narrow, wide = plant(3, 12, rank=4, seed=1), plant(3, 12, rank=5, seed=1)
    theta, w = narrow.theta.copy(), narrow.w.copy()
    theta[1] = wide.theta[1]
    message = (
        r"torch has 3 heads of rank 12 / 3 = 4: head 1 has Theta of rank 5; expected at most 4"
    )
    with pytest.raises(ValueError, match=message):
        AttentionLayer(theta, w).to_torch()
    w[2] = wide.w[2]
    with pytest.raises(ValueError, match="head 2 has W of rank 5; expected at most 4"):
        AttentionLayer(narrow.theta, w).to_torch()
    # A loss that is accepted first is no obstacle.
    cut = AttentionLayer(theta, narrow.w).factored(rank=4, tolerance=0.9)
    X = tokens(dtype=torch.float64)
    np.testing.assert_allclose(outputs_of(cut.to_torch(dtype=X.dtype), X), cut(X), atol=1e-12)
    with pytest.raises(ValueError, match=r"dtype is torch\.int32"):
        narrow.to_torch(dtype=torch.int32)
    with pytest.raises(ValueError, match="dtype is float32"):
        narrow.to_torch(dtype="float32")
