/* Tokens that a reader types: read, refused in one line, drawn at random, and written again. */

const MOST_TOKENS = 128;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** Rows of numbers, or nested lists of JSON, Python or numpy; an Error says what is wrong. */
function readTokens(text) {
  // With brackets a row ends where they close, and may go over several lines.
  const lines = text.includes("[") ? text.split("]") : text.split("\n");
  const rows = lines
    .map((line) => line.replaceAll("[", " ").split(/[\s,;]+/).filter(Boolean))
    .filter((row) => row.length);
  const expected = data.constant ? `${data.width - 1}` : `${data.width}`;
  if (!rows.length) throw Error(`There are no tokens; expected rows of ${expected} numbers.`);
  if (rows.length > MOST_TOKENS) {
    throw Error(`There are ${rows.length} tokens; expected at most ${MOST_TOKENS}.`);
  }
  rows.forEach((row, r) => {
    const wrong = row.find((word) => !NUMBER.test(word) || !Number.isFinite(Number(word)));
    if (wrong !== undefined) throw Error(`Token ${r + 1}: “${wrong.slice(0, 20)}” is no number.`);
    if (!lengths().includes(row.length)) {
      throw Error(`Token ${r + 1} has ${row.length} numbers; expected ${expected}.`);
    }
    if (row.length !== rows[0].length) {
      throw Error(`Token ${r + 1} has ${row.length} numbers; token 1 has ${rows[0].length}.`);
    }
  });
  return new Matrix(rows.length, rows[0].length, Float64Array.from(rows.flat(), Number));
}

/** Tokens may come with the constant coordinate, or without it. */
const lengths = () => (data.constant ? [data.width - 1, data.width] : [data.width]);

const rowsOf = (tokens) =>
  Array.from({ length: tokens.rows }, (_, r) =>
    Array.from(tokens.values.subarray(r * tokens.columns, (r + 1) * tokens.columns)),
  );

const written = (value) => String(Number(value.toPrecision(6)));

const textOf = (rows) => rows.map((row) => row.map(written).join(" ")).join("\n");

/** Numbers between 0 and 1 by seed: the same seed, the same tokens (mulberry32). */
function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Random tokens: signs, or standard Gaussian numbers (Box and Muller). */
function sampledRows(kind, count, seed) {
  const next = random(seed);
  const draw = {
    boolean: () => (next() < 0.5 ? -1 : 1),
    gaussian: () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next()),
  }[kind];
  return Array.from({ length: count }, () => Array.from({ length: data.dim }, draw));
}

/** A random order that is not the one there is, if there is another. */
function shuffled(rows, seed) {
  const next = random(seed);
  const mixed = [...rows];
  for (let i = mixed.length - 1; i > 0; i--) {
    const j = Math.floor(next() * i); // below i: no row stays where it is (Sattolo)
    [mixed[i], mixed[j]] = [mixed[j], mixed[i]];
  }
  return mixed;
}
