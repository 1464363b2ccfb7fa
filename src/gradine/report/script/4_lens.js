/* The value under the pointer: of pictures of matrices, by mouse, touch and arrow keys. */

const STEPS = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  PageUp: [-8, 0],
  PageDown: [8, 0],
  Home: [0, -Infinity],
  End: [0, Infinity],
};

/** Give a row of pictures of one shape (learned, true, difference) one cursor and one readout.

    `pictures` are {image, label, rows, columns, value(r, c), place(r, c)}. */
function addLens(pictures, readout) {
  let [row, column] = [0, 0];
  const lenses = pictures.map((picture) => {
    const cursor = element("span", { class: "cursor", hidden: "" });
    const lens = element("span", {
      class: "lens",
      tabindex: "0",
      role: "application",
      "aria-roledescription": "matrix",
      "aria-label": `${picture.label}, ${picture.rows} by ${picture.columns}: arrow keys read it`,
    });
    picture.image.replaceWith(lens);
    picture.image.setAttribute("aria-hidden", "true");
    lens.append(picture.image, cursor);
    return { lens, cursor, picture };
  });

  function show(r, c, { picture }) {
    row = Math.min(Math.max(r, 0), picture.rows - 1);
    column = Math.min(Math.max(c, 0), picture.columns - 1);
    for (const { cursor, picture: other } of lenses) {
      cursor.hidden = false;
      cursor.style.left = `${(100 * column) / other.columns}%`;
      cursor.style.top = `${(100 * row) / other.rows}%`;
      cursor.style.width = `${100 / other.columns}%`;
      cursor.style.height = `${100 / other.rows}%`;
    }
    const values = pictures.map((it) => `${it.short} ${inWords(it.value(row, column))}`.trim());
    readout.textContent = `${picture.place(row, column)}: ${values.join(", ")}`;
  }

  for (const it of lenses) {
    const point = (event) => {
      const box = it.lens.getBoundingClientRect();
      const r = Math.floor(((event.clientY - box.top) / box.height) * it.picture.rows);
      show(r, Math.floor(((event.clientX - box.left) / box.width) * it.picture.columns), it);
    };
    it.lens.addEventListener("pointermove", point);
    it.lens.addEventListener("pointerdown", point);
    it.lens.addEventListener("focus", () => show(row, column, it));
    it.lens.addEventListener("keydown", (event) => {
      const step = STEPS[event.key];
      if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      show(row + step[0], column + step[1], it);
    });
  }
}

/** "row 3, column 5", or the block that a pixel of a large matrix stands for. */
function placeOf(step, rows, columns) {
  const range = (index, size) =>
    step === 1
      ? `${index + 1}`
      : `${index * step + 1} to ${Math.min((index + 1) * step, size)}`;
  const words = step === 1 ? ["row", "column"] : ["strongest of rows", "columns"];
  return (r, c) => `${words[0]} ${range(r, rows)}, ${words[1]} ${range(c, columns)}`;
}

/** All pictures that the page has the numbers of, row by row; each row gets its readout. */
function addLenses() {
  for (const tiles of document.querySelectorAll(".tiles[data-rows]")) {
    const images = [...tiles.querySelectorAll("img[data-values]")];
    const shown = images.filter((image) => data.matrices[image.dataset.values]);
    if (!shown.length) continue;
    const readout = element("output", { class: "readout", "aria-live": "polite" });
    readout.textContent = "Point at an entry, or move with the arrow keys, to read it.";
    tiles.after(readout);
    addLens(
      shown.map((image) => {
        const { step = 1 } = data.matrices[image.dataset.values];
        return {
          image,
          label: image.alt,
          short: image.dataset.values.split("-")[1],
          rows: Number(image.getAttribute("height")),
          columns: Number(image.getAttribute("width")),
          value: (r, c) => pixelOf(image.dataset.values, r, c),
          place: placeOf(step, Number(tiles.dataset.rows), Number(tiles.dataset.columns)),
        };
      }),
      readout,
    );
    addTable(tiles, shown[0]);
  }
}

const MOST_IN_TABLE = 64;

/** The same numbers as a table, made when it is opened. */
function addTable(tiles, image) {
  const { step = 1 } = data.matrices[image.dataset.values];
  const matrix = matrixShape(tiles);
  if (step > 1 || Math.max(...matrix) > MOST_IN_TABLE) return;
  const summary = element("summary", {}, "Numbers as a table");
  const details = element("details", { class: "numbers" }, summary);
  details.addEventListener("toggle", () => {
    if (!details.open || details.querySelector("table")) return;
    const table = element("table", {}, element("caption", {}, image.alt));
    const head = table.createTHead().insertRow();
    head.append(element("td"));
    for (let c = 0; c < matrix[1]; c++) head.append(element("th", { scope: "col" }, `${c + 1}`));
    const body = table.createTBody();
    for (let r = 0; r < matrix[0]; r++) {
      const row = body.insertRow();
      row.append(element("th", { scope: "row" }, `${r + 1}`));
      for (let c = 0; c < matrix[1]; c++) {
        row.append(element("td", {}, inWords(pixelOf(image.dataset.values, r, c))));
      }
    }
    const scrolled = { class: "wide", tabindex: "0", role: "region", "aria-label": image.alt };
    details.append(element("div", scrolled, table));
  });
  tiles.parentElement.append(details);
}

const matrixShape = (tiles) => [Number(tiles.dataset.rows), Number(tiles.dataset.columns)];
