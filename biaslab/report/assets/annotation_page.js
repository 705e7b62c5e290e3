// One image at a time: three answers, a way back, and a file of annotations at the end. Answers stay in this browser.
(() => {
  "use strict";
  const LABELS = { f: "female", m: "male", u: "unsure" };
  const block = document.getElementById("data");
  const data = JSON.parse(block.textContent);
  block.remove();
  const n = data.rows.length;
  const own = `biaslab-annotate:${data.id}`;
  const at = (id) => document.getElementById(id);
  const [start, rating, done, image, note] = ["start", "rating", "done", "image", "unsaved"].map(at);
  const ahead = new Image();
  let annotator = "", order = [], answers = new Map(), place = 0;

  // -- what the browser keeps: pages opened as files share it, so what is found there may be anything

  function keep(name, value) {
    try {
      localStorage.setItem(name, JSON.stringify(value));
    } catch {
      note.hidden = false;
      onbeforeunload = (event) => event.preventDefault();
    }
  }

  function kept(name) {
    try {
      return JSON.parse(localStorage.getItem(name));
    } catch {
      return null;
    }
  }

  const isName = (text) => typeof text === "string" && /^[\p{L}\p{N}_][\p{L}\p{M}\p{N}_-]{0,39}$/u.test(text);

  // -- the order: the same for an annotator each time, another for each; people of one image follow one another

  const asks = data.questions?.length > 0;
  const follows = (item) => asks && item > 0 && item < n && data.pictures[item] === data.pictures[item - 1];

  function shuffled(text) {
    let state = 2166136261;
    for (const sign of text) state = Math.imul(state ^ sign.codePointAt(0), 16777619);
    const random = () => { // mulberry32
      state = (state + 0x6d2b79f5) | 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
    const items = Array.from({ length: n }, (_, item) => item).filter((item) => !follows(item));
    for (let i = items.length - 1; i > 0; i--) {
      const j = Math.floor(random() * (i + 1));
      [items[i], items[j]] = [items[j], items[i]];
    }
    return items.flatMap((item) => {
      const together = [item];
      while (follows(item + 1)) together.push(++item);
      return together;
    });
  }

  const unanswered = () => order.findIndex((item) => !answers.has(item));

  function open(name) {
    annotator = name;
    order = shuffled(`${data.seed}:${annotator}`);
    const found = kept(`${own}:${annotator}`);
    answers = new Map((Array.isArray(found) ? found : []).filter((pair) => Array.isArray(pair) &&
      Number.isInteger(pair[0]) && pair[0] >= 0 && pair[0] < n && Object.values(LABELS).includes(pair[1])));
    place = unanswered();
    show();
  }

  // -- what is shown

  function show() {
    const finished = place < 0;
    start.hidden = true;
    rating.hidden = finished;
    done.hidden = !finished;
    if (finished) {
      const counts = Object.values(LABELS).map((label) =>
        `${[...answers.values()].filter((given) => given === label).length} ${label}`);
      at("counts").textContent = `${annotator}: ${counts.join(", ")}.`;
      at("download").focus();
      return;
    }
    const item = order[place];
    image.src = data.pictures[item];
    image.alt = `Image ${place + 1}`;
    if (asks) at("question").textContent = data.questions[item];
    if (place + 1 < n) ahead.src = data.pictures[order[place + 1]];
    at("count").textContent = `${asks ? "Person" : "Image"} ${place + 1} of ${n}`;
    at("rated").textContent = `${answers.size} annotated`;
    at("bar").value = answers.size;
    at("bar").textContent = `${answers.size} of ${n}`;
    for (const button of rating.querySelectorAll("[data-label]"))
      button.setAttribute("aria-pressed", String(answers.get(item) === button.dataset.label));
    at("back").disabled = place === 0;
    at("next").disabled = !answers.has(item);
    at("early").disabled = answers.size === 0;
    // A button that became disabled would lose the keys.
    if (!rating.contains(document.activeElement) || document.activeElement.disabled) at("stage").focus();
  }

  function answer(label) {
    answers.set(order[place], label);
    keep(`${own}:${annotator}`, [...answers]);
    place = unanswered();
    show();
  }

  function back() {
    place = place < 0 ? n - 1 : Math.max(0, place - 1);
    show();
  }

  function next() {
    if (!answers.has(order[place])) return;
    place = place + 1 < n ? place + 1 : unanswered();
    show();
  }

  function download() {
    const line = (cells) => cells.map((cell) => `"${cell.replaceAll('"', '""')}"`).join(",");
    const rows = order.filter((item) => answers.has(item)).map((item) => [...data.rows[item], annotator, answers.get(item)]);
    const lines = [[...data.header, "annotator", "label"], ...rows].map(line);
    const url = URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/csv" }));
    const anchor = Object.assign(document.createElement("a"), { href: url, download: `annotations-${data.id}-${annotator}.csv` });
    document.body.append(anchor);
    anchor.click();
    anchor.remove();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
  }

  // -- what is done

  start.addEventListener("submit", (event) => {
    event.preventDefault();
    const name = at("annotator").value.trim().normalize("NFC");
    if (!isName(name)) return;
    keep(own, name);
    open(name);
  });
  for (const button of rating.querySelectorAll("[data-label]"))
    button.addEventListener("click", () => answer(button.dataset.label));
  for (const id of ["back", "again"]) at(id).addEventListener("click", back);
  for (const id of ["download", "early"]) at(id).addEventListener("click", download);
  at("next").addEventListener("click", next);
  at("other").addEventListener("click", () => {
    keep(own, "");
    location.reload();
  });

  document.addEventListener("keydown", (event) => {
    // A key that is held down answers once.
    if (!start.hidden || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    // On keyboards of other alphabets the place of the key counts.
    const plain = event.key.length > 1 || /[a-z]/i.test(event.key);
    const key = (plain ? event.key : event.code.replace("Key", "")).toLowerCase();
    if (["b", "backspace", "arrowleft"].includes(key)) back();
    else if (rating.hidden) return;
    else if (key === "arrowright") next();
    else if (Object.hasOwn(LABELS, key)) answer(LABELS[key]);
    else return;
    event.preventDefault();
  });

  // The same page in another window.
  addEventListener("storage", (event) => {
    if (annotator && event.key === `${own}:${annotator}`) open(annotator);
  });

  const before = kept(own);
  if (isName(before)) open(before);
  else at("annotator").focus();
})();
