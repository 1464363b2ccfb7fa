/* The page around it: phases one at a time, light and dark, and copying. Then all of it begins. */

/** One phase at a time, or all of them. */
function addSteps() {
  const steps = [...document.querySelectorAll("#steps > li")];
  if (!steps.length) return;
  const [bar, said, all] = [byId("steps-bar"), byId("steps-said"), byId("steps-all")];
  const [before, after] = [byId("step-before"), byId("step-after")];
  let at = 0;

  function show(index, focus = false) {
    at = Math.min(Math.max(index, 0), steps.length - 1);
    steps.forEach((step, i) => (step.hidden = !all.checked && i !== at));
    // Not disabled outright: that would take the focus away from the keyboard.
    before.ariaDisabled = at === 0;
    after.ariaDisabled = at === steps.length - 1;
    const title = steps[at].querySelector("h3");
    said.textContent = `${at + 1} of ${steps.length}: ${title.firstChild.textContent.trim()}`;
    for (const link of document.querySelectorAll('.way a[href^="#phase-"]')) {
      if (link.hash === `#${steps[at].id}`) link.setAttribute("aria-current", "step");
      else link.removeAttribute("aria-current");
    }
    if (focus) title.focus();
  }
  function follow() {
    const index = steps.findIndex((step) => `#${step.id}` === location.hash);
    if (index < 0) return;
    show(index, true);
    byId("phases").scrollIntoView();
  }
  bar.hidden = false;
  steps.forEach((step) => step.querySelector("h3").setAttribute("tabindex", "-1"));
  before.addEventListener("click", () => show(at - 1));
  after.addEventListener("click", () => show(at + 1));
  all.addEventListener("change", () => show(at));
  bar.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    show(at + by);
  });
  addEventListener("hashchange", follow);
  show(0);
  follow();
}

/** Light, dark, or as the system has it; remembered where the browser lets a file remember. */
function addTheme() {
  const choice = byId("theme");
  const remember = (name) => {
    try {
      if (name !== undefined) localStorage.setItem("gradine-theme", name);
      return localStorage.getItem("gradine-theme") ?? "system";
    } catch {
      return name ?? "system";
    }
  };
  function show() {
    if (choice.value === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice.value;
  }
  choice.value = remember();
  if (!choice.value) choice.value = "system";
  choice.addEventListener("change", () => {
    remember(choice.value);
    show();
  });
  byId("theme-bar").hidden = false;
  show();
}

/** Buttons that copy the code beside them. */
function addCopying() {
  for (const button of document.querySelectorAll("[data-copy]")) {
    const said = byId(`${button.dataset.copy}-said`);
    button.hidden = false;
    button.addEventListener("click", async () => {
      const code = byId(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(code.textContent);
        said.textContent = "Copied.";
      } catch {
        getSelection().selectAllChildren(code);
        said.textContent = "Selected: copy it with the keyboard.";
      }
    });
  }
}

addTheme();
addSteps();
addCopying();
addLenses();
if (data.heads.length) {
  const able = data.attention in FUNCTIONS && !data.note;
  const unknown = `This page cannot compute the attention function “${data.attention}”.`;
  if (!able) byId("no-editor").textContent = data.note || unknown;
  addHeads(able ? addEditor() : () => {});
}
