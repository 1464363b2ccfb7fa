/* Attention on the tokens of the reader: tables of weights, or a picture where there are many. */

const MOST_IN_CELLS = 24; // tokens up to which a pattern is a table
const MOST_PRINTED = 8; // tokens up to which its weights are printed

/** What a token is called: by its word, or by its place. */
const nameOf = (words, i) => words?.[i] ?? `${i + 1}`;

/** Weights (k, k) as a table: query tokens down, tokens looked at across. */
function patternTable(weights, label, words) {
  const k = weights.rows;
  const kind = `pattern${words ? " named" : ""}${k > MOST_PRINTED ? " dense" : ""}`;
  const table = element("table", { class: kind }, element("caption", {}, label));
  const head = table.createTHead().insertRow();
  head.append(element("td"));
  for (let c = 0; c < k; c++) {
    head.append(element("th", { scope: "col" }, element("span", {}, nameOf(words, c))));
  }
  const body = table.createTBody();
  for (let r = 0; r < k; r++) {
    const row = body.insertRow();
    row.append(element("th", { scope: "row" }, nameOf(words, r)));
    for (let c = 0; c < k; c++) {
      const weight = weights.at(r, c);
      const title = `${nameOf(words, r)} looks at ${nameOf(words, c)}: ${weight}`;
      const cell = element("td", { title }, element("span", {}, weight.toFixed(2)));
      cell.style.setProperty("--w", Math.min(Math.max(weight, 0), 1));
      row.append(cell);
    }
  }
  return table;
}

/** A matrix as a picture with a lens: blue below zero, red above. `place` names an entry. */
function picture(matrix, label, largest, place) {
  const canvas = element("canvas", { width: matrix.columns, height: matrix.rows, class: "sharp" });
  const pixels = canvas.getContext("2d");
  for (let r = 0; r < matrix.rows; r++) {
    for (let c = 0; c < matrix.columns; c++) {
      const share = Math.min(Math.abs(matrix.at(r, c)) / (largest || 1), 1);
      const colour = matrix.at(r, c) < 0 ? [33, 102, 172] : [178, 24, 43];
      const mixed = colour.map((part) => Math.round(255 + (part - 255) * share));
      pixels.fillStyle = `rgb(${mixed.join(" ")})`;
      pixels.fillRect(c, r, 1, 1);
    }
  }
  const readout = element("output", { class: "readout", "aria-live": "polite" });
  const tiles = element("div", { class: "tiles" }, element("figure", {}, canvas));
  const { rows, columns } = matrix;
  const value = (r, c) => matrix.at(r, c);
  addLens([{ image: canvas, label, short: "", rows, columns, value, place }], readout);
  tiles.firstChild.append(element("figcaption", {}, label));
  return element("div", {}, tiles, readout);
}

function pattern(weights, label, words) {
  if (weights.rows <= MOST_IN_CELLS) return patternTable(weights, label, words);
  return picture(weights, label, 1, (r, c) => `token ${r + 1} looks at token ${c + 1}`);
}

/** The patterns of some heads, learned beside true. */
function showPatterns(target, tokens, heads, words) {
  const kinds = ["learned", "true"].filter((kind) =>
    heads.some((head) => matrixOf(`theta-${kind}-${head}`)),
  );
  const blocks = heads.map((head) => {
    const block = element("div", { class: "tiles", "data-head": head });
    for (const kind of kinds) {
      const weights = weightsOf(tokens, `${kind}-${head}`);
      if (!weights) continue;
      const label = data.heads[head].name + (kinds.length > 1 ? `, ${kind}` : "");
      block.append(element("figure", {}, pattern(weights, label, words)));
    }
    return block;
  });
  target.className = words ? "named" : "panels";
  target.replaceChildren(...blocks);
}

/** What the whole layer writes for these tokens, and how far the true one is from it. */
function showOutput(target, tokens) {
  if (!data.whole) return target.replaceChildren();
  const output = outputOf(tokens, "learned");
  const largest = Math.max(...output.values.map(Math.abs));
  const place = (r, c) => `token ${r + 1}, output ${c + 1}`;
  const bounds = `from -${inWords(largest)} to ${inWords(largest)}`;
  const label = `F(X), ${output.rows} tokens by ${output.columns} outputs, ${bounds}`;
  const title = element("h3", {}, "What the layer writes");
  target.replaceChildren(title, picture(output, label, largest, place));
  if (!data.trueHeads) return;
  const truth = outputOf(tokens, "true");
  const size = Math.hypot(...truth.values) || 1;
  const apart = Math.hypot(...truth.values.map((value, i) => value - output.values[i])) / size;
  const least = data.digits > 7 ? 1e-13 : 1e-6; // what the digits of the heads in this page allow
  const words = apart < least ? `less than ${inWords(least)}` : inWords(apart);
  const said = `Difference to the output of the true layer: ${words} (relative).`;
  target.append(element("p", {}, said));
}
