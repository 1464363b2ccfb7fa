"""Names of tensors: stacks of layers are found whatever stands before them."""

from __future__ import annotations

import pytest

from gradine.checkpoint.names import choose_stack, find_stacks


def query(layer, prefix="", stack="encoder.layer", map_name="self.query", kind="weight"):
    return f"{prefix}{stack}.{layer}.attention.{map_name}.{kind}"


def found(*names):
    return [(stack.family.name, stack.prefix, stack.layers) for stack in find_stacks(names)]


def test_families_are_known_by_their_names():
    assert found(query(0), query(11), query(2)) == [("BERT", "", (0, 2, 11))]
    assert found(query(0, map_name="attn.q")) == [("MPNet", "", (0,))]
    distilbert = query(3, "distilbert.", "transformer.layer", "q_lin")
    assert found(distilbert) == [("DistilBERT", "distilbert.", (3,))]


@pytest.mark.parametrize(
    "name",
    [
        query(0, kind="bias"),
        query(0, map_name="self.key"),
        query("00"),
        query("1e1"),
        query("٣"),
        query("9" * 40),
        query(0, "x"),  # "xencoder" is another word
        query(0, stack="decoder.layer"),
        query(0).replace("attention", "crossattention"),
        query(0) + "\n",
        "",
    ],
)
def test_other_names_are_not_taken_for_layers(name):
    assert found(name) == []


def test_prefixes_are_kept_apart():
    names = [query(0, "b."), query(0, "a.b."), query(1, "b."), query(0)]
    assert found(*names) == [
        ("BERT", "", (0,)),
        ("BERT", "a.b.", (0,)),
        ("BERT", "b.", (0, 1)),
    ]
    assert choose_stack(find_stacks(names), "b").layers == (0, 1)
    assert choose_stack(find_stacks(names), "").prefix == ""
    with pytest.raises(ValueError, match=r"^expected one of '', 'a\.b\.', 'b\.': choose"):
        choose_stack(find_stacks(names), None)
    with pytest.raises(ValueError, match="prefix is 'c'; expected one of"):
        choose_stack(find_stacks(names), "c")
