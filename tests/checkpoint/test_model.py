"""Layers of saved models: what their own library would compute, or one clear refusal."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest

import gradine
from gradine import AttentionLayer
from gradine.checkpoint import read_checkpoint

DIM, HEADS = 12, 3
X = np.random.default_rng(2).normal(size=(5, DIM))


def extracted(path, layer=1, **options):
    """A layer without a word of warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return AttentionLayer.from_checkpoint(path, layer, **options)


def refused(path, message, layer=0, **options):
    with pytest.raises(ValueError, match=message) as caught:
        AttentionLayer.from_checkpoint(path, layer, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("prefix", ["", "bert.", "model.", "0.auto_model.", "a.b.c."])
def test_a_layer_computes_what_the_model_does(model_of, prefix, biased):
    model = model_of(prefix=prefix, biased=biased)
    path = model.write()
    for layer in (0, 1):
        found = extracted(path, layer)
        assert (found.n_heads, found.dim, found.out_dim) == (HEADS, DIM, DIM)
        assert found.constant == biased and found.factors.rank == DIM // HEADS
        np.testing.assert_allclose(found(X), model.outputs(layer, X), atol=1e-12)
    told = read_checkpoint(path, 1)
    assert (told.family, told.layers) == ("BERT", 2)
    assert told.name == f"{prefix}encoder.layer.1.attention"


@pytest.mark.parametrize(
    ("kind", "prefix"), [("roberta", "roberta."), ("electra", "electra."), ("camembert", "")]
)
def test_models_named_as_bert(model_of, kind, prefix):
    model = model_of(prefix=prefix)
    model.config["model_type"] = kind
    np.testing.assert_allclose(extracted(model.write())(X), model.outputs(1, X), atol=1e-12)


@pytest.mark.parametrize("prefix", ["", "distilbert."])
def test_distilbert(model_of, prefix):
    config = {"model_type": "distilbert", "n_heads": HEADS, "dim": DIM}
    model = model_of("DistilBERT", prefix=prefix, config=config)
    path = model.write()
    np.testing.assert_allclose(extracted(path)(X), model.outputs(1, X), atol=1e-12)
    assert read_checkpoint(path, 0).family == "DistilBERT"


def test_mpnet_is_read_without_its_positions_and_says_so(model_of):
    model = model_of("MPNet", prefix="mpnet.")
    model.config["model_type"] = "mpnet"
    name = "mpnet.encoder.relative_attention_bias.weight"
    model.tensors[name] = np.ones((32, HEADS), dtype=np.float32)
    path = model.write()
    with pytest.warns(UserWarning, match=rf"left out: positions, .*{name}") as caught:
        layer = AttentionLayer.from_checkpoint(path, 1)
    assert len(caught) == 1 and caught[0].filename == __file__
    np.testing.assert_allclose(layer(X), model.outputs(1, X), atol=1e-12)


@pytest.mark.parametrize(
    ("config", "tensor", "left_out"),
    [
        ({"position_embedding_type": "relative_key"}, None, "positions of type 'relative_key'"),
        ({"position_embedding_type": "absolute"}, None, None),
        ({"is_decoder": True}, None, "the mask of a decoder"),
        ({"is_decoder": False}, None, None),
        ({"model_type": "roformer"}, None, "whatever a model of type 'roformer'"),
        ({}, "encoder.layer.1.attention.self.distance_embedding.weight", "distance_embedding"),
        ({}, "encoder.layer.0.attention.self.distance_embedding.weight", None),  # another layer's
        ({}, "encoder.embed_positions.weight", "embed_positions"),
        ({}, "encoder.rel_pos_bias.weight", "rel_pos_bias"),
        ({}, "embeddings.position_embeddings.weight", None),  # these come before the layers
    ],
)
def test_what_is_left_out_is_said(model, config, tensor, left_out):
    model.config |= config
    if tensor:
        model.tensors[tensor] = np.ones((4, 4), dtype=np.float32)
    found = read_checkpoint(model.write(), 1).left_out
    if left_out is None:
        assert found == ()
    else:
        assert len(found) == 1 and left_out in found[0]


@pytest.mark.parametrize(
    "name", ["self.query.lora_A.weight", "self.query_global.weight", "output.adapters.x.weight"]
)
def test_attention_that_is_more_than_four_maps_is_refused(model, name):
    tensor = model.name(1, name)
    model.tensors[tensor] = np.ones((2, 2), dtype=np.float32)
    refused(model.write(), f"has {tensor} in its attention; expected query, key", layer=1)
    extracted(model.path, 0)  # which is not touched by it


def test_heads_come_from_the_config_or_from_the_caller(model):
    path = model.write()
    assert extracted(path).n_heads == HEADS
    assert extracted(path, heads=np.int64(HEADS)).n_heads == HEADS
    refused(path, r"heads is 4; expected 3, as .*config\.json has it", heads=4)
    model.config["num_attention_heads"] = 10**30
    refused(model.write(), r"config\.json: heads is 10+; expected a divisor of")
    model.config["num_attention_heads"] = HEADS
    model.write()
    (model.folder / "config.json").unlink()
    assert extracted(path, heads=4).n_heads == 4
    refused(path, r"model\.safetensors: does not say how many heads .*give heads$")
    for heads in (0, -3, 5, 24):
        refused(path, rf"heads is {heads}; expected a divisor of 12", heads=heads)
    refused(path, r"heads is 3\.0; expected a whole number", heads=3.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"config\.json: not JSON"),
        ("\xff", r"config\.json: not JSON"),
        ("[" * 100_000, r"config\.json: not JSON"),
        ("[12]", r"config\.json: holds a list; expected a JSON object"),
        ('{"num_attention_heads": "3"}', r"num_attention_heads or n_heads is '3'; expected a pos"),
        ('{"num_attention_heads": true}', "num_attention_heads or n_heads is True"),
        ('{"n_heads": 0}', "num_attention_heads or n_heads is 0"),
        ('{"num_attention_heads": 5}', "heads is 5; expected a divisor of 12"),
        ('{"num_attention_heads": 3, "hidden_size": 768}', "of 768 coordinates; expected 12"),
        ("{}", "does not say how many heads"),
    ],
)
def test_a_config_that_cannot_be_right_is_refused(model, text, message):
    path = model.write()
    (model.folder / "config.json").write_bytes(text.encode("latin-1"))
    refused(path, message)


def test_layers_that_are_not_there(model):
    path = model.write()
    refused(path, r"model\.safetensors: layer is 2; expected 0 to 1: the model has 2 layers", 2)
    refused(path, "layer is -1; expected 0 to 1", -1)
    refused(path, r"layer is 1\.0; expected a whole number", 1.0)
    refused(path, "layer is '0'; expected a whole number", "0")
    del model.tensors[model.name(0, "self.query.weight")]
    refused(model.write(), "layer is 0; expected one of 1: the model has 1 layer", 0)


def test_several_encoders_are_told_apart_by_their_prefix(model_of):
    one, two = model_of(prefix="question.bert."), model_of(prefix="answer.bert.")
    two.tensors = {name: 2 * array for name, array in two.tensors.items()} | one.tensors
    path = two.write()
    refused(path, r"model\.safetensors: expected one of 'answer\.bert\.', 'question\.bert\.'")
    refused(path, "prefix is 'bert.'; expected one of 'answer", prefix="bert.")
    for prefix in ("answer.bert.", "answer.bert"):
        assert read_checkpoint(path, 0, prefix=prefix).name.startswith("answer.bert.encoder")
    np.testing.assert_allclose(
        extracted(path, 1, prefix="question.bert.")(X), one.outputs(1, X), atol=1e-12
    )
    np.testing.assert_allclose(
        extracted(path, 1, prefix="answer.bert.")(X), two.outputs(1, X), atol=1e-12
    )


def test_other_models_are_refused(model):
    model.tensors = {name.replace("query", "q"): x for name, x in model.tensors.items()}
    refused(model.write(), r"model\.safetensors: has no attention layer named as in BERT")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("self.key.weight", None, "has no tensor {name}"),
        ("output.dense.bias", None, "has no tensor {name}"),
        ("self.query.weight", np.ones((6, 12)), r"{name} has shape \(6, 12\); expected a square"),
        ("self.query.weight", np.ones((2, 3, 4)), r"{name} has shape \(2, 3, 4\); expected"),
        ("self.query.weight", np.ones((0, 0)), r"{name} has shape \(0, 0\)"),
        ("self.value.weight", np.ones((12, 11)), r"{name} has shape \(12, 11\); expected \(12, 12"),
        ("output.dense.weight", np.ones((8, 12)), r"{name} has shape \(8, 12\); expected \(12, 12"),
        ("self.key.bias", np.ones(13), r"{name} has shape \(13,\); expected \(12,\)"),
        (
            "self.key.bias",
            np.ones(12, dtype=int),
            "{name} has dtype I64; expected F64, F32, F16",
        ),
        ("self.query.weight", np.ones((12, 12), dtype=np.int8), "{name} has dtype I8"),
        ("self.value.weight", np.full((12, 12), np.nan), "{name} has NaN"),
        ("output.dense.bias", np.full(12, -np.inf), "{name} has NaN or infinite"),
    ],
)
def test_tensors_that_are_not_as_they_should_be(model, name, change, message):
    name = model.name(0, name)
    if change is None:
        del model.tensors[name]
    else:
        model.tensors[name] = change
    refused(model.write(), r"model\.safetensors: " + message.format(name=name))


def test_only_the_tensors_of_the_layer_are_looked_at(model):
    """Another layer may hold what it likes."""
    model.tensors[model.name(1, "self.value.weight")] = np.full((12, 12), np.nan)
    model.tensors["pooler.dense.weight"] = np.ones((3, 3), dtype=np.int16)
    layer = extracted(model.write(), 0)
    np.testing.assert_allclose(layer(X), model.outputs(0, X), atol=1e-12)


def test_no_library_of_models_is_loaded(model):
    code = (
        "import sys; from gradine import AttentionLayer; "
        f"AttentionLayer.from_checkpoint({str(model.write())!r}, 0); "
        "print({'torch', 'transformers', 'scipy', 'pickle5', 'ml_dtypes'} & set(sys.modules))"
    )
    source = str(gradine.__file__).removesuffix("/gradine/__init__.py")
    answer = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {source!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.strip() == "set()"


def test_the_index_of_a_sharded_model_and_its_folder(model):
    index = model.write_shards()
    for path in (index, model.folder):
        np.testing.assert_allclose(extracted(path)(X), model.outputs(1, X), atol=1e-12)
    assert len(read_checkpoint(index, 0).files) == 3
    listed = json.loads(index.read_text())
    name = model.name(0, "self.key.weight")
    del listed["weight_map"][name]
    index.write_text(json.dumps(listed))
    refused(index, rf"index\.json: has no tensor {name}")
