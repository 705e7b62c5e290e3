// Pictures enlarge with what was asked and judged, arrow keys walk between them, and choices narrow a model's page.
(() => {
  "use strict";
  document.documentElement.classList.add("js");
  const dialog = document.getElementById("picture");
  if (!dialog) return;
  const items = [...document.querySelectorAll(".wall > .item")];
  const choices = [...document.querySelectorAll("select[data-by]")];
  const count = document.querySelector(".choosing .count");
  const fields = { called: "called", group: "groups", judged: "judged", status: "statuses", tone: "tones" };
  // What is shown now: of a wall what the choices leave, of strips the pictures of one strip.
  const among = (button) => [...(button.closest(".wall, .strip")).querySelectorAll("button.picture")]
    .filter((one) => !one.closest("[hidden]"));
  let open = null;

  function show(button) {
    open = button;
    const image = button.querySelector("img");
    const large = dialog.querySelector("img");
    large.src = image.src;
    large.alt = image.alt;
    for (const name of ["group", "prompt", "said"]) dialog.querySelector(`.${name}`).textContent = button.dataset[name];
    const all = among(button);
    dialog.querySelector(".before").disabled = all[0] === button;
    dialog.querySelector(".after").disabled = all.at(-1) === button;
    if (!dialog.open) dialog.showModal();
  }

  function step(button, by) {
    const all = among(button);
    return all[all.indexOf(button) + by] ?? null;
  }

  // The picture in the next or last line that stands nearest below or above.
  function beside(button, by) {
    const here = button.getBoundingClientRect();
    const lines = among(button).map((one) => [one, one.getBoundingClientRect()])
      .filter(([, box]) => (by > 0 ? box.top > here.bottom - 1 : box.bottom < here.top + 1));
    if (!lines.length) return null;
    const distance = ([, box]) => Math.abs(box.top - here.top) * 1000 + Math.abs(box.left - here.left);
    return lines.reduce((best, one) => (distance(one) < distance(best) ? one : best))[0];
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.picture");
    if (button) show(button);
  });
  document.addEventListener("keydown", (event) => {
    const here = dialog.open ? open : document.activeElement?.closest?.("button.picture");
    if (!here || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = { ArrowRight: () => step(here, 1), ArrowLeft: () => step(here, -1),
      ArrowDown: () => beside(here, 1), ArrowUp: () => beside(here, -1) }[event.key]?.();
    if (!next) return;
    event.preventDefault();
    if (dialog.open) show(next);
    else next.focus();
  });
  dialog.querySelector(".before").addEventListener("click", () => { const to = step(open, -1); if (to) show(to); });
  dialog.querySelector(".after").addEventListener("click", () => { const to = step(open, 1); if (to) show(to); });
  dialog.querySelector(".close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => open?.focus());

  function choose() {
    const wanted = choices.filter((one) => one.value).map((one) => [fields[one.dataset.by], one.value]);
    let shown = 0;
    for (const item of items) {
      const fits = wanted.every(([field, value]) => item.dataset[field].split("\n").includes(value));
      item.hidden = !fits;
      shown += fits;
    }
    count.textContent = `${shown.toLocaleString("en")} image${shown === 1 ? "" : "s"}`;
  }
  choices.forEach((one) => one.addEventListener("change", choose));
})();
