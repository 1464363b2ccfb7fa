"""How the page looks: one column, system fonts, light and dark."""

from __future__ import annotations

__all__ = ["STYLE"]

STYLE = """\
:root {
  --ink: #1c2128; --soft: #57606a; --line: #d5dae1; --card: #ffffff; --page: #f5f6f8;
  --good: #137a56; --bad: #b3261e; --good-ground: #e8f6f0; --bad-ground: #fdeeec;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e4e8ee; --soft: #a0a9b5; --line: #3a424d; --card: #1b2027; --page: #12161b;
    --good: #4cc79a; --bad: #ff8a80; --good-ground: #14271f; --bad-ground: #301a19;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1rem; max-width: 62rem; color: var(--ink); background: var(--page);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  overflow-wrap: break-word;
}
header p, p, dl { margin: 0.4rem 0; }
header p, .note, figcaption, dt { color: var(--soft); }
h1 { margin: 0; font-size: 1.7rem; letter-spacing: 0.02em; }
h2 { margin: 0 0 0.3rem; font-size: 1.25rem; }
h3 { margin: 1rem 0 0.3rem; font-size: 1rem; }
section {
  margin: 1rem 0; padding: 1rem 1.2rem; background: var(--card);
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
.way li {
  padding: 0.1rem 0.6rem; border: 1px solid currentColor; border-radius: 1rem; font-size: 0.85rem;
}
.way .learner { padding-left: 0; min-width: 3.6rem; border-color: transparent; }
.done { color: var(--good); }
.halt { font-weight: 600; }
.ahead { color: var(--soft); border-style: dashed !important; }
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
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.85rem; }
th, td { padding: 0.3rem 0.5rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child { padding-left: 0; text-align: left; }
thead th { vertical-align: bottom; color: var(--soft); font-weight: 500; }
tbody th { font-weight: 500; white-space: nowrap; }
td { font-variant-numeric: tabular-nums; }
.starts { margin-top: 0.8rem; }
.starts td:nth-child(3), .starts th:nth-child(3) { min-width: 9rem; text-align: left; }
.ledger td:last-child, .ledger th:last-child { min-width: 14rem; text-align: left; }
figure { margin: 0; min-width: 0; flex: 1 1 0; max-width: 13rem; text-align: center; }
figcaption { margin-top: 0.15rem; font-size: 0.78rem; line-height: 1.25; }
.tiles { display: flex; gap: 0.6rem; align-items: flex-start; }
.tiles img { display: block; width: 100%; height: auto; border: 1px solid var(--line); }
.sharp { image-rendering: pixelated; }
.scale {
  display: flex; flex-wrap: wrap; gap: 0.2rem 0.8rem; font-size: 0.78rem; color: var(--soft);
}
.bar { display: inline-flex; gap: 0.4rem; align-items: center; }
.bar img { width: 4rem; height: 0.6rem; flex: none; image-rendering: auto; }
.head + .head { margin-top: 0.8rem; border-top: 1px solid var(--line); }
.named figure { max-width: 26rem; }
.named .tiles { margin-bottom: 0.8rem; }
.pattern { display: block; width: 100%; height: auto; }
.pattern text { fill: var(--ink); font-size: 13px; text-anchor: middle; }
details { margin-top: 0.8rem; }
summary { cursor: pointer; font-weight: 600; }
@media (max-width: 30rem) {
  body { padding: 0.5rem; }
  section { padding: 0.8rem; }
}
@media print { body { background: none; } section { break-inside: avoid; } }
"""
