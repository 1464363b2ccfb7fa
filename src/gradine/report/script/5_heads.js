/* Which heads are shown, and in which order: one choice for the matrices and for the patterns. */

const ORDERS = {
  listed: () => 0,
  best: (a, b) => misfit(a) - misfit(b),
  worst: (a, b) => misfit(b) - misfit(a),
  w: (a, b) => b.w - a.w,
  theta: (a, b) => b.theta - a.theta,
};
/** Heads without a partner match worst of all. */
const misfit = (head) => head.error ?? Number.MAX_VALUE;

/** Wire up the bar of heads; `changed` is called after every choice. */
function addHeads(changed) {
  const [bar, choice, order] = [byId("heads-bar"), byId("head"), byId("order")];
  const parts = [...document.querySelectorAll("#heads [data-head]")];
  const home = parts[0]?.parentElement;
  let listed = data.heads.map((_, index) => index);

  function fill() {
    const chosen = choice.value;
    choice.replaceChildren(new Option(`all ${listed.length}`, "all"));
    for (const index of listed) choice.add(new Option(data.heads[index].name, String(index)));
    choice.value = chosen || "all";
  }
  function show() {
    const shown = choice.value === "all" ? listed : [Number(choice.value)];
    for (const part of parts) part.hidden = !shown.includes(Number(part.dataset.head));
    changed(shown);
  }
  function arrange() {
    const compare = ORDERS[order.value];
    listed = data.heads.map((_, index) => index);
    listed.sort((a, b) => compare(data.heads[a], data.heads[b])); // stable
    const after = parts.at(-1).nextElementSibling && notHead(home);
    for (const index of listed) {
      home.insertBefore(parts.find((part) => Number(part.dataset.head) === index), after);
    }
    fill();
    show();
  }
  function turn(by) {
    const values = ["all", ...listed.map(String)];
    const next = (values.indexOf(choice.value) + by + values.length) % values.length;
    choice.value = values[next];
    show();
  }
  bar.hidden = data.heads.length < 2; // of one head there is nothing to choose
  choice.addEventListener("change", show);
  order.addEventListener("change", arrange);
  byId("head-before").addEventListener("click", () => turn(-1));
  byId("head-after").addEventListener("click", () => turn(1));
  arrange();
}

/** What follows the heads in their section, if anything does. */
function notHead(home) {
  const heads = [...home.children].filter((child) => child.dataset.head !== undefined);
  return heads.at(-1).nextElementSibling;
}
