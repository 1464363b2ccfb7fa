/* Numbers: out of the data of the page, and into words. */

const data = JSON.parse(document.getElementById("data").textContent);

/** The numbers of {shape, f8} or {shape, f4}: little-endian floats in base64. */
function decoded(array) {
  const text = atob(array.f8 ?? array.f4);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return array.f8 === undefined ? new Float32Array(bytes.buffer) : new Float64Array(bytes.buffer);
}

class Matrix {
  constructor(rows, columns, values = new Float64Array(rows * columns)) {
    Object.assign(this, { rows, columns, values });
  }

  static from(array) {
    return new Matrix(...array.shape, decoded(array));
  }

  at(r, c) {
    return this.values[r * this.columns + c];
  }

  /** A B, row by row of B: wide heads are large, and memory is read in order. */
  times(other) {
    const product = new Matrix(this.rows, other.columns);
    const [from, to, n] = [other.values, product.values, other.columns];
    for (let r = 0; r < this.rows; r++) {
      for (let i = 0; i < this.columns; i++) {
        const factor = this.at(r, i);
        for (let c = 0; c < n; c++) to[r * n + c] += factor * from[i * n + c];
      }
    }
    return product;
  }

  /** A B^T. */
  timesTransposed(other) {
    const product = new Matrix(this.rows, other.rows);
    const pair = new Product(this, other);
    product.values.forEach((_, place, values) => {
      values[place] = pair.at(Math.floor(place / other.rows), place % other.rows);
    });
    return product;
  }
}

/** L R^T, of which only the factors are kept. */
class Product {
  constructor(left, right) {
    Object.assign(this, { left, right, rows: left.rows, columns: right.rows });
  }

  at(r, c) {
    let sum = 0;
    for (let i = 0; i < this.left.columns; i++) sum += this.left.at(r, i) * this.right.at(c, i);
    return sum;
  }
}

/** Tokens times a matrix, by its factors where it has some. */
function applied(tokens, matrix) {
  if (!(matrix instanceof Product)) return tokens.times(matrix);
  return tokens.times(matrix.left).timesTransposed(matrix.right);
}

const matrices = new Map(); // those that were looked at: the others stay undecoded

/** A matrix of the page by its name; null if the page does not have it. */
function matrixOf(name) {
  const sent = data.matrices[name];
  if (!sent) return null;
  if (!matrices.has(name)) {
    const whole = !sent.left;
    matrices.set(
      name,
      whole ? Matrix.from(sent) : new Product(Matrix.from(sent.left), Matrix.from(sent.right)),
    );
  }
  return matrices.get(name);
}

/** What a pixel of a picture stands for: an entry, or the strongest one of a block. */
function pixelOf(name, r, c) {
  const { step = 1, condensed = false } = data.matrices[name];
  const matrix = matrixOf(name);
  if (step === 1 || condensed) return matrix.at(r, c);
  let strongest = 0;
  for (let i = r * step; i < Math.min((r + 1) * step, matrix.rows); i++) {
    for (let j = c * step; j < Math.min((c + 1) * step, matrix.columns); j++) {
      const value = matrix.at(i, j);
      if (Math.abs(value) > Math.abs(strongest)) strongest = value;
    }
  }
  return strongest;
}

const SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** A number for people, as the rest of the report writes it, with a digit more. */
function inWords(value) {
  if (!Number.isFinite(value)) return "unknown";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return String(value);
  if (size >= 1e-3 && size < 1e4) return String(Number(value.toPrecision(4)));
  const [digits, exponent] = value.toExponential(2).split("e");
  const raised = [...String(Number(exponent))].map((sign) => SUPERSCRIPT[sign] ?? "⁻");
  return `${digits}·10${raised.join("")}`;
}

/** An element with attributes, text and children. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const byId = (name) => document.getElementById(name);
