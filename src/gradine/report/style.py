"""How the page looks: one column, system fonts, light and dark."""

from __future__ import annotations

__all__ = ["STYLE"]

# Pairs of colours are light and dark; all text on its ground has a contrast of 4.5 or more.
STYLE = """\
:root {
  color-scheme: light dark;
  --ink: light-dark(#1c2128, #e4e8ee); --soft: light-dark(#57606a, #a9b2bd);
  --line: light-dark(#d5dae1, #3a424d); --edge: light-dark(#7b8592, #77818d);
  --card: light-dark(#ffffff, #1b2027); --page: light-dark(#f5f6f8, #12161b);
  --good: light-dark(#137a56, #4cc79a); --good-ground: light-dark(#e8f6f0, #14271f);
  --bad: light-dark(#b3261e, #ff8a80); --bad-ground: light-dark(#fdeeec, #301a19);
  --link: light-dark(#0b5cad, #7ab8ff); --weight: light-dark(#3db88b, #12694c);
  --shade: light-dark(#57606a99, #a9b2bd99);
}
:root[data-theme="light"] { color-scheme: light; }
:root[data-theme="dark"] { color-scheme: dark; }
* { box-sizing: border-box; }
[hidden] { display: none !important; }
body {
  margin: 0 auto; padding: 1rem; max-width: 62rem; color: var(--ink); background: var(--page);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  overflow-wrap: break-word;
}
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -100vw; padding: 0.5rem; background: var(--card); }
.skip:focus { left: 0.5rem; z-index: 3; }
header { position: relative; }
header p, p, dl { margin: 0.4rem 0; }
header p, .note, figcaption, caption, dt { color: var(--soft); }
#theme-bar { margin: 0; }
@media (min-width: 44rem) { #theme-bar { position: absolute; top: 0; right: 0; } }
nav ul {
  display: flex; flex-wrap: wrap; gap: 0.2rem 1.2rem; margin: 0.6rem 0; padding: 0;
  list-style: none;
}
nav a { display: inline-block; padding: 0.15rem 0; }
h1 { margin: 0; font-size: 1.7rem; letter-spacing: 0.02em; }
h2 { margin: 0 0 0.3rem; font-size: 1.25rem; }
h3 { margin: 1rem 0 0.3rem; font-size: 1rem; }
section {
  margin: 1rem 0; padding: 1rem 1.2rem; background: var(--card); scroll-margin-top: 4rem;
  border: 1px solid var(--line); border-radius: 0.6rem;
}
section > p { max-width: 46rem; }
#verdict { border-left: 0.5rem solid; }
#verdict.good { border-left-color: var(--good); background: var(--good-ground); }
#verdict.bad { border-left-color: var(--bad); background: var(--bad-ground); }
#verdict h2 { font-size: 1.7rem; }
#verdict.good h2 { color: var(--good); }
#verdict.bad h2, .halt { color: var(--bad); }
.way {
  display: flex; flex-wrap: wrap; gap: 0.4rem; margin: 0.8rem 0 0; padding: 0; list-style: none;
}
.way li { border: 1px solid currentColor; border-radius: 1rem; font-size: 0.85rem; }
.way li, .way a { padding: 0.1rem 0.6rem; }
.way li:has(a) { padding: 0; }
.way a { display: inline-block; color: inherit; text-decoration: none; border-radius: 1rem; }
.way a:hover { text-decoration: underline; }
.way a[aria-current] { color: var(--card); background: var(--good); }
.way .halt a[aria-current] { background: var(--bad); }
.way .learner { padding-left: 0; min-width: 3.6rem; border-color: transparent; }
.done { color: var(--good); }
.halt { font-weight: 600; }
.ahead { color: var(--soft); border-style: dashed !important; }
.bar { display: flex; flex-wrap: wrap; gap: 0.4rem 0.6rem; align-items: center; margin: 0.5rem 0; }
.bar label { display: inline-flex; gap: 0.4rem; align-items: center; }
button, select, input, textarea { font: inherit; color: inherit; }
button, select, input:not([type="checkbox"]), textarea {
  min-height: 2.2rem; padding: 0.2rem 0.6rem; background: var(--card);
  border: 1px solid var(--edge); border-radius: 0.4rem;
}
button { cursor: pointer; }
button:hover:not([aria-disabled="true"]) { border-color: var(--ink); }
button[aria-disabled="true"] { color: var(--soft); border-style: dashed; cursor: default; }
input[type="checkbox"] { width: 1.2rem; height: 1.2rem; }
input[type="number"] { width: 6rem; }
select { max-width: 100%; }
textarea {
  display: block; width: 100%; margin-top: 0.3rem; font: 0.85rem/1.4 ui-monospace, monospace;
}
textarea[aria-invalid] { border-color: var(--bad); }
#tokens-error:empty { display: none; }
#editor { padding-bottom: 0.6rem; margin-bottom: 0.6rem; border-bottom: 1px solid var(--line); }
#heads-bar {
  position: sticky; top: 0; z-index: 2; margin: 1rem 0 -0.4rem; padding: 0.4rem 0.6rem;
  background: var(--page); border: 1px solid var(--line); border-radius: 0.6rem;
}
#heads-bar button { min-width: 2.2rem; }
#steps { margin: 0; padding: 0; list-style: none; }
#steps > li + li { border-top: 1px solid var(--line); }
#steps h3 { margin-top: 0.6rem; }
h3 code { color: var(--soft); font-size: 0.85rem; font-weight: 400; }
#steps .tiles { max-width: 36rem; }
.panels {
  display: grid; gap: 0.8rem 1.6rem; align-items: start; margin-top: 0.6rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr));
}
.panel { min-width: 0; }
.plot { display: block; width: 100%; max-width: 36rem; height: auto; font-family: inherit; }
.facts { display: flex; flex-wrap: wrap; gap: 0.5rem 1.8rem; }
.facts dt { font-size: 0.8rem; }
.facts dd { margin: 0; font-weight: 600; font-variant-numeric: tabular-nums; }
.panel .facts { display: block; }
.panel .facts div {
  display: flex; justify-content: space-between; align-items: baseline; gap: 1rem;
  padding: 0.3rem 0; border-bottom: 1px solid var(--line);
}
.panel .facts dt { font-size: 0.9rem; }
/* A shadow lies where a table goes on; covers that move with its content hide it at the ends. */
.wide {
  overflow-x: auto; max-height: 28rem;
  background:
    linear-gradient(to right, var(--card) 40%, transparent) left / 3rem 100% no-repeat local,
    linear-gradient(to left, var(--card) 40%, transparent) right / 3rem 100% no-repeat local,
    linear-gradient(to right, var(--shade), transparent) left / 1.2rem 100% no-repeat scroll,
    linear-gradient(to left, var(--shade), transparent) right / 1.2rem 100% no-repeat scroll;
}
.wide caption { text-align: left; }
table { border-collapse: collapse; width: 100%; font-size: 0.85rem; }
th, td { padding: 0.3rem 0.5rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child { padding-left: 0; text-align: left; }
thead th { vertical-align: bottom; color: var(--soft); font-weight: 500; }
tbody th { font-weight: 500; white-space: nowrap; }
td { font-variant-numeric: tabular-nums; }
.starts { margin-top: 0.8rem; }
.starts td:nth-child(3), .starts th:nth-child(3) { min-width: 9rem; text-align: left; }
figure { margin: 0; min-width: 0; flex: 1 1 0; max-width: 13rem; text-align: center; }
figcaption, caption { margin-top: 0.15rem; font-size: 0.78rem; line-height: 1.25; }
.tiles { display: flex; gap: 0.6rem; align-items: flex-start; }
.tiles img, .tiles canvas {
  display: block; width: 100%; height: auto; border: 1px solid var(--line);
}
.sharp { image-rendering: pixelated; }
.lens { display: block; position: relative; cursor: crosshair; }
.cursor {
  position: absolute; min-width: 5px; min-height: 5px; pointer-events: none;
  outline: 2px solid #111; box-shadow: 0 0 0 4px #fff;
}
.readout {
  display: block; min-height: 1.3rem; font-size: 0.85rem; font-variant-numeric: tabular-nums;
}
.scale {
  display: flex; flex-wrap: wrap; gap: 0.2rem 0.8rem; font-size: 0.78rem; color: var(--soft);
}
.colours { display: inline-flex; gap: 0.4rem; align-items: center; }
.colours img { width: 4rem; height: 0.6rem; flex: none; image-rendering: auto; }
.head + .head { margin-top: 0.8rem; border-top: 1px solid var(--line); }
.named figure { max-width: 26rem; }
.named .tiles { margin-bottom: 0.8rem; }
.pattern { table-layout: fixed; }
.pattern caption { caption-side: bottom; }
.pattern th, .pattern td { padding: 0; height: 2.1rem; border: 0; text-align: center; }
.pattern th { color: var(--soft); font-weight: 400; font-size: 0.78rem; }
.pattern thead th { height: auto; vertical-align: bottom; }
.pattern tbody td {
  border: 1px solid var(--line);
  background: color-mix(in srgb, var(--weight) calc(100% * var(--w)), transparent);
}
.pattern thead td, .pattern tbody th { width: 1.3rem; }
.pattern.named thead td, .pattern.named tbody th { width: 5.5rem; padding-right: 0.3rem; }
.pattern.named th { overflow: hidden; text-overflow: ellipsis; text-align: right; }
.pattern.named thead th { padding: 0 0 0.3rem; text-align: left; }
.pattern.named thead span {
  display: inline-block; max-height: 6rem; overflow: hidden; writing-mode: vertical-rl;
  rotate: 180deg;
}
.pattern.dense th, .pattern.dense td { height: 1.2rem; line-height: 1; }
.pattern.dense td span {
  position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
}
pre {
  overflow-x: auto; max-height: 24rem; padding: 0.7rem; background: var(--page);
  border: 1px solid var(--line); border-radius: 0.4rem; font-size: 0.85rem;
}
details { margin-top: 0.8rem; }
summary { cursor: pointer; font-weight: 600; }
.numbers { margin: 0; font-size: 0.85rem; }
.numbers summary { color: var(--soft); font-weight: 400; }
#output figure { max-width: 22rem; }
@media (max-width: 30rem) {
  body { padding: 0.5rem; }
  section { padding: 0.8rem; }
  #patterns .tiles, .named .tiles { flex-wrap: wrap; }
  .named figure { flex-basis: 100%; }
  #heads-bar select { max-width: 8.5rem; }
}
@media (prefers-reduced-motion: no-preference) { html { scroll-behavior: smooth; } }
@media print {
  :root { color-scheme: light; }
  body { background: none; }
  section { break-inside: avoid; }
  nav, .bar, #theme-bar, #editor, .readout { display: none !important; }
  #steps > li[hidden], .head[hidden] { display: block !important; }
}
"""
