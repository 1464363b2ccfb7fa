/* The layer itself: F(X) = sum_i a(X Theta_i X^T) X W_i, with the attention function a of the page.

   What stands here is that of gradine/attention_functions.py, row by row. */

const FUNCTIONS = {
  softmax(logits) {
    const largest = Math.max(...logits);
    return shares(logits.map((z) => Math.exp(z - largest)));
  },
  polynomial(logits) {
    // In units of the largest of the row, so that no square is too large for a float.
    const unit = Math.max(1, ...logits.map((z) => Math.abs(1 + z)));
    return shares(logits.map((z) => ((1 + z) / unit) ** 2 + (1 / unit) ** 2));
  },
  sigmoid: (logits) => logits.map((z) => 1 / (1 + Math.exp(-z)) / logits.length),
  relu: (logits) => logits.map((z) => Math.max(z, 0) / logits.length),
};

function shares(values) {
  const sum = values.reduce((total, value) => total + value, 0);
  return values.map((value) => value / sum);
}

/** The weights (k, k) of a head: rows are queries, columns the tokens they look at. */
function attentionOf(tokens, theta) {
  const logits =
    theta instanceof Product
      ? tokens.times(theta.left).timesTransposed(tokens.times(theta.right))
      : tokens.times(theta).timesTransposed(tokens);
  refuseUnlessFinite(logits, tokens);
  const weights = new Matrix(tokens.rows, tokens.rows);
  for (let r = 0; r < tokens.rows; r++) {
    const row = Array.from(logits.values.subarray(r * tokens.rows, (r + 1) * tokens.rows));
    weights.values.set(FUNCTIONS[data.attention](row), r * tokens.rows);
  }
  return weights;
}

const attended = new WeakMap(); // weights by tokens and head: they are asked for more than once
const outputs = new WeakMap(); // outputs by tokens and kind, for the same reason

/** The weights of a head by its name, such as learned-0; null if the page does not have it. */
function weightsOf(tokens, name) {
  const theta = matrixOf(`theta-${name}`);
  if (!theta) return null;
  if (!attended.has(tokens)) attended.set(tokens, new Map());
  const known = attended.get(tokens);
  if (!known.has(name)) known.set(name, attentionOf(tokens, theta));
  return known.get(name);
}

/** The output of all heads of one kind, learned or true. */
function outputOf(tokens, kind) {
  if (!outputs.has(tokens)) outputs.set(tokens, new Map());
  const known = outputs.get(tokens);
  if (!known.has(kind)) known.set(kind, summed(tokens, kind));
  return known.get(kind);
}

function summed(tokens, kind) {
  const output = new Matrix(tokens.rows, data.outputs);
  data.heads.forEach((_, head) => {
    const weights = weightsOf(tokens, `${kind}-${head}`);
    if (!weights) return;
    const written = applied(weights.times(tokens), matrixOf(`w-${kind}-${head}`));
    written.values.forEach((value, i) => (output.values[i] += value));
  });
  refuseUnlessFinite(output, tokens);
  return output;
}

/** Numbers that a float cannot hold come of large tokens: the Error names the largest. */
function refuseUnlessFinite(computed, tokens) {
  if (computed.values.every(Number.isFinite)) return;
  const sizes = tokens.values.map(Math.abs);
  const place = sizes.indexOf(sizes.reduce((most, size) => Math.max(most, size)));
  const [token, value] = [Math.floor(place / tokens.columns) + 1, tokens.values[place]];
  throw Error(`Token ${token}: ${value} is too large for the numbers that this layer makes of it.`);
}

/** Tokens with the constant coordinate 1 appended, where they come without it. */
function completed(tokens) {
  if (tokens.columns === data.width) return tokens;
  const whole = new Matrix(tokens.rows, data.width);
  for (let r = 0; r < tokens.rows; r++) {
    for (let c = 0; c < data.width; c++) {
      whole.values[r * data.width + c] = c < tokens.columns ? tokens.at(r, c) : 1;
    }
  }
  return whole;
}
