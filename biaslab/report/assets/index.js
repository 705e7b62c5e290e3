// The index page without this script is complete and readable; with it, tables sort, filter and page, figures
// enlarge, and a table downloads even where the page was mailed without its folder.
(() => {
  "use strict";
  const PAGE = 25;
  const page = document.documentElement;
  page.classList.add("js");
  const order = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

  const element = (tag, properties) => Object.assign(document.createElement(tag), properties);

  // The value a cell sorts by: a number, a text, or null for "no value" (always last).
  function sortValue(cell, numeric) {
    const text = cell ? cell.textContent.trim() : "";
    if (!numeric) return text === "" ? null : text;
    const plain = text.replace(/^</, "").replace(/,/g, "");
    const number = text === "∞" ? Infinity : text === "-∞" ? -Infinity : parseFloat(plain);
    return Number.isNaN(number) ? null : number;
  }

  const cellsOf = (row) => [...row.cells].map((cell) => cell.textContent.trim());

  // A table as a manuscript takes it: the rows that the filter leaves, in the order in which they stand.
  function latex(names, rows, heads) {
    const signs = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "–": "--" };
    const plain = (text) => text.replace(/\s+/g, " ").replace(/[\\~^–]|[&%$#_{}]/g, (sign) => signs[sign] ?? `\\${sign}`);
    const line = (cells) => `${cells.map(plain).join(" & ")} \\\\`;
    const columns = heads.map((head) => (head.classList.contains("n") ? "r" : "l")).join("");
    return [`\\begin{tabular}{${columns}}`, "\\toprule", line(names), "\\midrule",
      ...rows.map((row) => line(cellsOf(row))), "\\bottomrule", "\\end{tabular}", ""].join("\n");
  }

  function markdown(names, rows, heads) {
    const plain = (text) => text.replace(/\s+/g, " ").replace(/[\\`*_[\]<>|&]/g, "\\$&");
    const line = (cells) => `| ${cells.map(plain).join(" | ")} |`;
    const rule = heads.map((head) => (head.classList.contains("n") ? "---:" : "---"));
    return [line(names), `| ${rule.join(" | ")} |`, ...rows.map((row) => line(cellsOf(row))), ""].join("\n");
  }

  function save(blob, name) {
    const url = URL.createObjectURL(blob);
    const anchor = element("a", { href: url, download: name });
    document.body.append(anchor);
    anchor.click();
    anchor.remove();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
  }

  function enhance(frame) {
    const table = frame.querySelector("table");
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    const all = [...body.rows];
    const find = frame.querySelector("input[type=search]");
    const choices = [...frame.querySelectorAll("[data-choice]")];
    const count = frame.querySelector(".count");
    const [before, after, whole] = ["before", "after", "whole"].map((name) => frame.querySelector(`.${name}`));
    const words = all.map(() => null);
    const names = heads.map((head) => head.firstChild.textContent.trim());
    const place = new Map(all.map((row, index) => [row, index]));
    let sorted = all, first = 0, paged = all.length > PAGE, column = -1, direction = 0, choice = "";

    const wordsOf = (row) => {
      const index = place.get(row);
      return (words[index] ??= [...row.cells].map((cell) => cell.textContent).join("\u0000").toLowerCase());
    };

    function matching() {
      const wanted = find.value.toLowerCase().split(/\s+/).filter(Boolean);
      return sorted.filter((row) =>
        (!choice || row.dataset.status === choice) && wanted.every((word) => wordsOf(row).includes(word)));
    }

    function show() {
      const rows = matching();
      if (first >= rows.length) first = 0;
      const last = paged ? Math.min(first + PAGE, rows.length) : rows.length;
      body.replaceChildren(...rows.slice(first, last));
      const total = all.length.toLocaleString("en");
      const of = rows.length === all.length ? total : `${rows.length.toLocaleString("en")} that match (${total} in all)`;
      count.textContent = rows.length === 0 ? `No row matches (${total} in all)`
        : last - first === all.length ? `${total} row${all.length === 1 ? "" : "s"}` : `Rows ${first + 1}–${last} of ${of}`;
      // A button that is disabled loses the focus; hand it to its neighbour.
      const focused = document.activeElement;
      before.disabled = first === 0;
      after.disabled = last >= rows.length;
      if (focused === before && before.disabled) (after.disabled ? whole : after).focus();
      if (focused === after && after.disabled) (before.disabled ? whole : before).focus();
      before.parentElement.hidden = all.length <= PAGE;
      whole.textContent = paged ? "Show all rows" : "Show in pages";
    }

    function sort(index) {
      direction = index === column ? (direction === 1 ? -1 : direction === -1 ? 0 : 1) : 1;
      column = index;
      heads.forEach((head, i) => head.setAttribute("aria-sort",
        i !== index || direction === 0 ? "none" : direction === 1 ? "ascending" : "descending"));
      const numeric = heads[index].classList.contains("n");
      const values = new Map(all.map((row) => [row, sortValue(row.cells[index], numeric)]));
      sorted = direction === 0 ? all : all.slice().sort((a, b) => {
        const [x, y] = [values.get(a), values.get(b)];
        if (x === null || y === null) return (x === null) - (y === null);
        return direction * (numeric ? Math.sign(x - y) || 0 : order.compare(x, y));
      });
      first = 0;
      show();
    }

    heads.forEach((head, index) => {
      const button = element("button", { type: "button", className: "sort", title: "Sort by this column" });
      button.append(...head.childNodes);
      button.firstChild.after(element("span", { className: "arrow", ariaHidden: "true" }));
      head.append(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => sort(index));
    });
    frame.querySelectorAll("[data-as]").forEach((button) => button.addEventListener("click", () => {
      const text = (button.dataset.as === "tex" ? latex : markdown)(names, matching(), heads);
      save(new Blob([text], { type: "text/plain;charset=utf-8" }),
        button.dataset.name.replace(/\.csv$/, "") + "." + button.dataset.as);
    }));
    find.addEventListener("input", () => { first = 0; show(); });
    before.addEventListener("click", () => { first = Math.max(0, first - PAGE); show(); });
    after.addEventListener("click", () => { first += PAGE; show(); });
    whole.addEventListener("click", () => { paged = !paged; first = 0; show(); });
    choices.forEach((button) => button.addEventListener("click", () => {
      choice = button.dataset.choice;
      choices.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
      first = 0;
      show();
    }));
    show();
  }

  // The bytes of the table's file, held in the page as gzip: the same download with and without the folder.
  async function download(link) {
    const packed = Uint8Array.from(atob(link.dataset.csv), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const blob = new Blob([await new Response(stream).arrayBuffer()], { type: "text/csv;charset=utf-8" });
    save(blob, link.getAttribute("download"));
  }

  function enlarge(link) {
    const dialog = document.getElementById("enlarged");
    const image = link.querySelector("img");
    dialog.querySelector(".stage").replaceChildren(element("img", { src: image.src, alt: image.alt }));
    dialog.classList.remove("actual");
    dialog.querySelector(".size").setAttribute("aria-pressed", "false");
    dialog.querySelector("p").textContent = link.dataset.title;
    dialog.querySelector("a").setAttribute("href", link.getAttribute("href"));
    dialog.showModal();
  }

  // A link to something inside a closed part of the page opens that part.
  function reveal() {
    const id = decodeURIComponent(location.hash.slice(1));
    const target = id && document.getElementById(id);
    if (!target) return;
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    target.scrollIntoView();
  }

  document.querySelectorAll(".frame").forEach(enhance);
  document.querySelectorAll("a[data-csv]").forEach((link) => link.addEventListener("click", (event) => {
    if (!("DecompressionStream" in window)) return;
    event.preventDefault();
    download(link);
  }));
  document.querySelectorAll("a.zoom").forEach((link) => link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    enlarge(link);
  }));
  const dialog = document.getElementById("enlarged");
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.querySelector(".close").addEventListener("click", () => dialog.close());
  dialog.querySelector(".size").addEventListener("click", (event) => {
    const actual = dialog.classList.toggle("actual");
    event.target.setAttribute("aria-pressed", String(actual));
  });
  window.addEventListener("hashchange", reveal);
  reveal();
})();
