// The selected runs: progress, rate, remaining time, and the numbers at the slider's batch.

import { el, styles, svg, swatch, theme } from "./draw.js";
import { age, chosen, recordAt, state } from "./state.js";
import { duration, number, percent, position, share, statusReason, statusWord, sub, whole } from "./words.js";

const rows = new Map(); // id -> cells

const COLUMNS = [
  ["who", "Run"], ["doing", "State"], ["at", "Batch"], ["rate", "Images/s"], ["left", "Left"], ["loss", "Loss"],
  ["accuracy_seen", "Seen, %"], ["accuracy", "All, %"], ["forgetting", "Forgetting, %"], ["lam", "λ"], ["seconds_train", "Training, s"],
];
const AT_BATCH = new Set(["accuracy_seen", "accuracy", "forgetting", "lam", "seconds_train"]);

const table = document.getElementById("progress");
const over = el("th", { scope: "colgroup", colspan: AT_BATCH.size, class: "span" });
const body = el("tbody");
table.append(
  el("caption", {}, "Selected runs: state, progress, and numbers after the batch of the slider"),
  el("thead", {},
    el("tr", {}, el("td", { colspan: 1 }), el("th", { scope: "colgroup", colspan: COLUMNS.length - AT_BATCH.size - 1, class: "span" }, "Now"), over),
    el("tr", {}, ...COLUMNS.map(([, title]) => el("th", { scope: "col" }, title)))),
  body,
);

export function draw() {
  const runs = chosen(), how = styles(runs);
  over.textContent = `After B${sub(state.batch)}`;
  for (const [id, row] of rows) if (!runs.some((run) => run.id === id)) { row.tr.remove(); rows.delete(id); }
  runs.forEach((run, k) => {
    if (!rows.has(run.id)) rows.set(run.id, row(run));
    const line = rows.get(run.id);
    update(line, run, how.get(run.id));
    if (body.children[k] !== line.tr) body.insertBefore(line.tr, body.children[k] ?? null);
  });
}

function row(run) {
  const done = svg("rect", { height: 5, rx: 2.5, width: 0, class: "done" });
  const mark = el("span", { class: "mark" }), name = el("span", { class: "name", dir: "auto" });
  const cells = Object.fromEntries(COLUMNS.map(([what]) => [what, el(what === "who" ? "th" : "td", what === "who" ? { scope: "row" } : { "data-run": run.id, "data-metric": what })]));
  cells.who.append(mark, name);
  const words = el("span"), dot = el("span", { class: "dot", "aria-hidden": "true" });
  cells.doing.append(dot, words);
  const where = el("span");
  cells.at.append(svg("svg", { class: "meter", viewBox: "0 0 100 5", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { height: 5, rx: 2.5, width: 100, class: "track" }), done), where);
  return { tr: el("tr", { "data-id": run.id }, ...Object.values(cells)), cells, done, mark, name, words, where };
}

function put(cell, words, value) {
  if (cell.textContent !== words) cell.textContent = words;
  if (value === null || value === undefined) delete cell.dataset.value;
  else cell.dataset.value = String(value);
}

function update(line, run, style) {
  const seconds = age(run), record = recordAt(run.id);
  const seen = `${run.style.colour}${style.dash}${style.mark}${theme().ink}`;
  if (line.mark.dataset.style !== seen) line.mark.replaceChildren(swatch(style));
  line.mark.dataset.style = seen;
  line.name.textContent = `${run.strategy} ${run.run}`;
  line.name.title = `${run.benchmark}: ${run.place}`;
  line.tr.dataset.status = run.problem ? "problem" : run.status;
  line.words.textContent = statusWord(run, seconds);
  line.cells.doing.title = statusReason(run, seconds);
  line.where.textContent = position(run);
  line.done.setAttribute("width", 100 * share(run));
  const rate = run.step ? run.step.images_per_second : null;
  put(line.cells.rate, whole(rate), rate);
  const left = run.left ?? run.left_batch;
  put(line.cells.left, left === null ? "—" : run.left === null ? `${duration(left)} of B${sub(run.step.i)}` : duration(left), left);
  put(line.cells.loss, number(run.step ? run.step.loss : null), run.step ? run.step.loss : null);
  const late = record && record.i < state.batch;
  for (const name of ["accuracy_seen", "accuracy", "forgetting"])
    put(line.cells[name], record ? percent(record[name]) : "—", record ? record[name] : null);
  for (const name of ["lam", "seconds_train"]) put(line.cells[name], number(record ? record[name] : null), record ? record[name] : null);
  for (const name of AT_BATCH) {
    line.cells[name].classList.toggle("late", Boolean(late));
    line.cells[name].title = late ? `After B${sub(record.i)}, its newest record` : "";
    line.cells[name].dataset.batch = record ? record.i : "";
  }
}
