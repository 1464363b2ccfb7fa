/* The editor of tokens: type, paste, draw, move, scale, change one number. */

/** Wire up the editor. Returns what shows some heads on the tokens that are there. */
function addEditor() {
  const [text, error, summary] = [byId("tokens-text"), byId("tokens-error"), byId("tokens-said")];
  const [token, coordinate, value] = [byId("token"), byId("coordinate"), byId("value")];
  const [kind, count] = [byId("sampled"), byId("count")];
  let heads = [];
  let rows = [];
  let tokens = null; // the rows as the layer takes them
  let words = null;
  let seed = 0;

  const example = () => (data.example ? rowsOf(Matrix.from(data.example)) : drawn());
  const drawn = () => {
    const wanted = Math.min(Math.max(Math.round(count.valueAsNumber) || 1, 1), MOST_TOKENS);
    return sampledRows(kind.value, wanted, ++seed);
  };

  function show() {
    showPatterns(byId("patterns"), tokens, heads, words);
    showOutput(byId("output"), tokens);
    showPython(rows, heads);
    summary.textContent = inShort(tokens, heads, words);
  }
  /** Take rows that the layer can compute with; of others it is said what is wrong with them. */
  function accept(changed, named = words, retype = true) {
    const values = Float64Array.from(changed.flat());
    const given = completed(new Matrix(changed.length, changed[0].length, values));
    try {
      for (const kind of ["learned", "true"]) outputOf(given, kind);
    } catch (wrong) {
      return refuse(wrong);
    }
    tokens = given;
    words = named?.length === changed.length ? named : null;
    rows = changed;
    error.textContent = "";
    text.removeAttribute("aria-invalid");
    if (retype) text.value = textOf(rows);
    token.max = rows.length;
    coordinate.max = rows[0].length;
    point();
    show();
  }
  function refuse(wrong) {
    error.textContent = wrong.message; // what was there before stays in view
    text.setAttribute("aria-invalid", "true");
  }
  function point() {
    const [r, c] = [token.valueAsNumber - 1, coordinate.valueAsNumber - 1];
    if (rows[r]?.[c] !== undefined) value.value = written(rows[r][c]);
  }
  text.addEventListener("input", () => {
    let read;
    try {
      read = rowsOf(readTokens(text.value));
    } catch (wrong) {
      return refuse(wrong);
    }
    accept(read, words, false);
  });
  const actions = {
    example: () => [example(), data.words],
    draw: () => [drawn(), null],
    shuffle: () => moved(shuffled([...rows.keys()], ++seed)),
    reverse: () => moved([...rows.keys()].reverse()),
    negate: () => [rows.map((row) => row.map((x) => -x || 0))],
    double: () => [rows.map((row) => row.map((x) => 2 * x))],
    halve: () => [rows.map((row) => row.map((x) => x / 2))],
  };
  /** The same tokens in another order, with their words. */
  function moved(places) {
    return [places.map((place) => rows[place]), words && places.map((place) => words[place])];
  }
  for (const button of document.querySelectorAll("[data-tokens]")) {
    button.addEventListener("click", () => accept(...actions[button.dataset.tokens]()));
  }
  for (const place of [token, coordinate]) place.addEventListener("input", point);
  value.addEventListener("input", () => {
    const [r, c, x] = [token, coordinate, value].map((input) => input.valueAsNumber);
    if (rows[r - 1]?.[c - 1] === undefined || !Number.isFinite(x)) return;
    const changed = rows.map((row) => [...row]);
    changed[r - 1][c - 1] = x;
    accept(changed);
  });
  count.value = data.tokens;
  kind.value = data.inputs;
  byId("editor").hidden = false;
  byId("python").hidden = false;
  return (chosen) => {
    heads = chosen;
    if (tokens) return show();
    accept(example(), data.words);
    if (!tokens) accept(drawn()); // an example that only larger floats could take
  };
}

/** What there is to see, in a line that a screen reader says: of one head its largest weight. */
function inShort(tokens, heads, words) {
  if (heads.length > 1) return `${tokens.rows} tokens, ${heads.length} heads.`;
  const weights = weightsOf(tokens, `learned-${heads[0]}`) ?? weightsOf(tokens, `true-${heads[0]}`);
  const most = Math.max(...weights.values);
  const place = weights.values.indexOf(most);
  const [r, c] = [Math.floor(place / tokens.rows), place % tokens.rows];
  const where = `token ${nameOf(words, r)} looks at token ${nameOf(words, c)}`;
  return `${data.heads[heads[0]].name}: largest weight ${inWords(most)}, ${where}.`;
}

/** The Python that gives the numbers of the patterns. */
function showPython(rows, heads) {
  const numbers = rows.map((row) => `    [${row.map(written).join(", ")}],`).join("\n");
  const places = heads.map((head) => data.heads[head].learned).filter((index) => index !== null);
  const shown = places.length === 1 ? `layer.attention(X)[${places[0]}]` : "layer.attention(X)";
  byId("attention-python").textContent =
    `${data.python}\nX = np.array([\n${numbers}\n])\nprint(${shown})\n`;
}
