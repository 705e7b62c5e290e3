// One question about one image at a time, a way back, and a file of annotations at the end. Answers stay in this browser.
(() => {
  "use strict";
  const block = document.getElementById("data");
  const data = JSON.parse(block.textContent);
  block.remove();
  const n = data.items.length;
  const prefix = `biaslab-annotate:${data.id}`;
  const at = (id) => document.getElementById(id);
  const [start, rating, done, image, note, choices] = ["start", "rating", "done", "image", "unsaved", "answers"].map(at);
  const ahead = new Image();
  let annotator = "", order = [], answers = new Map(), place = 0, drawn = -1;

  const pictureOf = (item) => data.items[item][0];
  const kindOf = (item) => data.kinds[data.items[item][1]];
  const labelsOf = (item) => kindOf(item).answers.map((answer) => answer.label);

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

  // -- the order: the same for an annotator each time, another for each; questions of one image follow one another

  const follows = (item) => item > 0 && item < n && pictureOf(item) === pictureOf(item - 1);

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
    const saved = kept(`${prefix}:${annotator}`);
    answers = new Map((Array.isArray(saved) ? saved : []).filter((pair) => Array.isArray(pair) &&
      Number.isInteger(pair[0]) && pair[0] >= 0 && pair[0] < n && labelsOf(pair[0]).includes(pair[1])));
    place = unanswered();
    show();
  }

  // -- what is shown

  function element(name, text, properties) {
    const made = document.createElement(name);
    made.textContent = text;
    return Object.assign(made, properties);
  }

  // The answers of a kind of question; they stay where they are while the kind does.
  function draw(index) {
    if (index === drawn) return;
    drawn = index;
    const kind = data.kinds[index];
    at("hint").textContent = kind.hint;
    at("hint").hidden = !kind.hint;
    at("ends").hidden = !kind.ends.length;
    [at("first").textContent, at("last").textContent] = kind.ends.length ? kind.ends : ["", ""];
    choices.className = `answers ${kind.scale ? `scale steps-${kind.answers.length - 1}` : ""}`;
    choices.replaceChildren(...kind.answers.map((answer, k) => {
      const button = element("button", "", { type: "button" });
      button.dataset.label = answer.label;
      if (answer.swatch) {
        button.append(element("span", "", { className: "swatch" }));
        button.firstChild.style.backgroundColor = answer.swatch;
        button.setAttribute("aria-label", `Tone ${answer.label} of ${kind.answers.length - 1}`);
      } else if (kind.ends.length && (k === 0 || k === kind.answers.length - 2)) {
        button.setAttribute("aria-label", `${answer.label}: ${kind.ends[k ? 1 : 0]}`);
      }
      button.append(element("span", answer.text));
      const key = (answer.keys[0] ?? "").toUpperCase();
      if (key && key !== answer.text) button.append(" ", element("kbd", key));
      if (answer.keys.length) button.setAttribute("aria-keyshortcuts", answer.keys.join(" ").toUpperCase());
      button.addEventListener("click", () => give(answer.label));
      return button;
    }));
  }

  function show() {
    const finished = place < 0;
    start.hidden = true;
    rating.hidden = finished;
    done.hidden = !finished;
    if (finished) {
      const given = [...answers];
      const counts = data.kinds.map((kind, index) => {
        const labels = given.filter(([item]) => data.items[item][1] === index).map(([, label]) => label);
        const each = kind.answers.map(({ label }) => `${labels.filter((one) => one === label).length} ${label}`);
        return element("li", `${kind.name}: ${kind.scale ? `${labels.length} answers` : each.join(", ")}`);
      });
      at("counts").replaceChildren(...counts);
      at("who").textContent = annotator;
      at("download").focus();
      return;
    }
    const item = order[place];
    image.src = data.pictures[pictureOf(item)];
    const images = new Set(order.slice(0, place + 1).map(pictureOf)).size;
    image.alt = `Image ${images}`;
    at("question").textContent = data.items[item][2];
    draw(data.items[item][1]);
    if (place + 1 < n) ahead.src = data.pictures[pictureOf(order[place + 1])];
    const several = n > data.pictures.length ? ` · question ${place + 1} of ${n}` : "";
    at("count").textContent = `Image ${images} of ${data.pictures.length}${several}`;
    at("rated").textContent = `${answers.size} answered`;
    at("bar").value = answers.size;
    at("bar").textContent = `${answers.size} of ${n}`;
    for (const button of choices.children)
      button.setAttribute("aria-pressed", String(answers.get(item) === button.dataset.label));
    at("back").disabled = place === 0;
    at("next").disabled = !answers.has(item);
    at("early").disabled = answers.size === 0;
    // A button that became disabled would lose the keys.
    if (!rating.contains(document.activeElement) || document.activeElement.disabled) at("stage").focus();
  }

  function give(label) {
    answers.set(order[place], label);
    keep(`${prefix}:${annotator}`, [...answers]);
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
    const together = (row, more) => line([...row.slice(0, 3), ...more, ...row.slice(3)]);
    // A spreadsheet must not take an answer for a formula.
    const safe = (label) => (/^['=+\-@＝＋－＠]/.test(label) ? `'${label}` : label);
    const rows = order.filter((item) => answers.has(item));
    const lines = rows.map((item) => together(data.rows[item], [annotator, safe(answers.get(item))]));
    lines.unshift(together(data.header, ["annotator", "label"]));
    const url = URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/csv" }));
    const anchor = element("a", "", { href: url, download: `annotations-${data.id}-${annotator}.csv` });
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
    keep(prefix, name);
    open(name);
  });
  for (const id of ["back", "again"]) at(id).addEventListener("click", back);
  for (const id of ["download", "early"]) at(id).addEventListener("click", download);
  at("next").addEventListener("click", next);
  at("other").addEventListener("click", () => {
    keep(prefix, "");
    location.reload();
  });

  document.addEventListener("keydown", (event) => {
    // A key that is held down answers once.
    if (!start.hidden || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    // On keyboards of other alphabets the place of the key counts.
    const plain = event.key.length > 1 || /[a-z0-9]/i.test(event.key);
    const key = (plain ? event.key : event.code.replace(/^(Key|Digit)/, "")).toLowerCase();
    if (["b", "backspace", "arrowleft"].includes(key)) back();
    else if (rating.hidden) return;
    else if (key === "arrowright") next();
    else {
      const answer = kindOf(order[place]).answers.find(({ keys }) => keys.includes(key));
      if (!answer) return;
      give(answer.label);
    }
    event.preventDefault();
  });

  // The same page in another window.
  addEventListener("storage", (event) => {
    if (annotator && event.key === `${prefix}:${annotator}`) open(annotator);
  });

  const before = kept(prefix);
  if (isName(before)) open(before);
  else at("annotator").focus();
})();
