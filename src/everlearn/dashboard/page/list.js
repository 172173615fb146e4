// The list of all runs: what can be selected, and how each one fares.

import { el, styles, svg, swatch } from "./draw.js";
import { MOST } from "./constants.js";
import { age, state } from "./state.js";
import { many, percent, share, statusReason, statusWord } from "./words.js";

const box = document.getElementById("list");
const filter = document.getElementById("filter");
const lines = new Map(); // id -> the elements of a line
const groups = new Map(); // benchmark -> its section
let changed = () => {};

const order = (a, b) =>
  a.benchmark.localeCompare(b.benchmark) || a.strategy.localeCompare(b.strategy) || a.run - b.run || a.place.localeCompare(b.place);

export const sorted = () => [...state.runs.values()].sort(order);

export function setUp(then) {
  changed = then;
  filter.addEventListener("input", showMatches);
  document.getElementById("pick-none").addEventListener("click", () => select([]));
  document.getElementById("pick-learning").addEventListener("click", () => {
    select(sorted().filter((run) => run.status === "learning" || run.status === "quiet").map((run) => run.id));
  });
}

export function select(ids) {
  const kept = ids.slice(0, MOST), places = new Map(sorted().map((run, k) => [run.id, k]));
  state.selected = kept.filter((id) => places.has(id)).sort((a, b) => places.get(a) - places.get(b));
  if (ids.length > MOST) say(`${MOST} runs at most are compared at a time: the first ${MOST} were selected.`);
  for (const [id, line] of lines) line.input.checked = state.selected.includes(id);
  changed();
}

export function say(what) {
  document.getElementById("said").textContent = what;
}

// What is selected when nobody has chosen: what is learning now; else one run of each strategy of the newest benchmark.
export function firstChoice() {
  const all = sorted();
  const now = all.filter((run) => run.status === "learning");
  if (now.length) return now.slice(0, 6).map((run) => run.id);
  const newest = all.reduce((best, run) => (best && best.news >= run.news ? best : run), null);
  return newest ? oneOfEach(newest.benchmark).slice(0, 8) : [];
}

function oneOfEach(benchmark) {
  const seen = new Set(), found = [];
  for (const run of sorted()) {
    if (run.benchmark !== benchmark || seen.has(run.strategy) || !run.done) continue;
    seen.add(run.strategy);
    found.push(run.id);
  }
  return found;
}

export function draw() {
  const all = sorted();
  for (const [id, line] of lines) if (!state.runs.has(id)) { line.row.remove(); lines.delete(id); }
  const twice = repeated(all);
  const wanted = new Map();
  for (const run of all) {
    if (!lines.has(run.id)) lines.set(run.id, line(run));
    update(lines.get(run.id), run, twice.has(key(run)));
    if (!wanted.has(run.benchmark)) wanted.set(run.benchmark, []);
    wanted.get(run.benchmark).push(lines.get(run.id).row);
  }
  for (const [name, group] of groups) if (!wanted.has(name)) { group.section.remove(); groups.delete(name); }
  for (const [name, rows] of wanted) {
    if (!groups.has(name)) groups.set(name, group(name, all.some((run) => run.benchmark === name && run.synthetic)));
    place(groups.get(name).rows, rows);
  }
  place(box, [...wanted.keys()].map((name) => groups.get(name).section));
  showMatches();
}

const key = (run) => `${run.benchmark}\n${run.strategy}\n${run.run}`;

function repeated(all) {
  const seen = new Set(), twice = new Set();
  for (const run of all) (seen.has(key(run)) ? twice : seen).add(key(run));
  return twice;
}

// Put elements in order, moving only those that stand elsewhere, so that the keyboard's focus stays.
function place(parent, wanted) {
  wanted.forEach((one, k) => { if (parent.children[k] !== one) parent.insertBefore(one, parent.children[k] ?? null); });
}

function group(name, synthetic) {
  const rows = el("ul"), pick = el("button", { type: "button", class: "small", "aria-label": `One run of each strategy on ${name}` }, "One of each");
  pick.addEventListener("click", () => select(oneOfEach(name)));
  const title = el("h3", { dir: "auto" }, synthetic ? `${name} (synthetic)` : name);
  return { rows, section: el("section", { class: "group" }, el("div", { class: "bar" }, title, pick), rows) };
}

function line(run) {
  const input = el("input", { type: "checkbox", id: `run-${run.id}` });
  input.checked = state.selected.includes(run.id);
  input.addEventListener("change", () => {
    const others = state.selected.filter((id) => id !== run.id);
    if (input.checked && others.length >= MOST) {
      input.checked = false;
      say(`${MOST} runs at most are compared at a time: take one away first.`);
      return;
    }
    select(input.checked ? [...others, run.id] : others);
  });
  const parts = {
    input, swatch: el("span", { class: "mark" }), name: el("span", { class: "name", dir: "auto" }), number: el("span", { class: "number" }),
    place: el("span", { class: "place", dir: "auto" }), what: el("span", { class: "what" }), score: el("span", { class: "score" }),
    done: svg("rect", { height: 3, width: 0, rx: 1.5 }),
  };
  const bar = svg("svg", { class: "meter", viewBox: "0 0 100 3", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { height: 3, width: 100, rx: 1.5, class: "track" }), parts.done);
  const label = el("label", { for: input.id }, parts.swatch,
    el("span", { class: "who" }, parts.name, " ", parts.number), parts.score, parts.what, bar, parts.place);
  return { ...parts, label, row: el("li", { "data-id": run.id }, input, label) };
}

function update(line, run, twice) {
  const seconds = age(run), word = statusWord(run, seconds);
  const mark = JSON.stringify([run.strategy, run.run, run.place, word, run.accuracy_seen, run.status, share(run), twice, run.style, matchMedia("(prefers-color-scheme: dark)").matches]);
  if (line.mark === mark) return;
  line.mark = mark;
  line.name.textContent = run.strategy;
  line.number.textContent = run.run;
  line.place.textContent = twice ? run.place : "";
  line.place.hidden = !twice;
  line.what.textContent = word;
  line.score.textContent = run.accuracy_seen === null ? "" : `${percent(run.accuracy_seen)} %`;
  line.done.setAttribute("width", 100 * share(run));
  line.row.dataset.status = run.problem ? "problem" : run.status;
  line.label.title = `${run.place}\n${statusReason(run, seconds)}`;
  line.swatch.replaceChildren(swatch(styles([run]).get(run.id)));
}

function showMatches() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const run of state.runs.values()) {
    const about = `${run.benchmark} ${run.strategy} run ${run.run} ${run.place} ${run.status}`.toLowerCase();
    const row = lines.get(run.id)?.row;
    if (!row) continue;
    row.hidden = !words.every((word) => about.includes(word));
    shown += row.hidden ? 0 : 1;
  }
  for (const { section, rows } of groups.values()) section.hidden = [...rows.children].every((row) => row.hidden);
  if (words.length) say(`${many(shown, "run")} found`);
}

export function counts() {
  const found = new Map();
  for (const run of state.runs.values()) {
    const status = run.problem ? "problem" : run.status;
    found.set(status, (found.get(status) ?? 0) + 1);
  }
  const words = { learning: "learning", quiet: "quiet", stopped: "stopped", finished: "finished", problem: "unreadable" };
  return Object.entries(words).filter(([name]) => found.has(name)).map(([name, word]) => ({ name, word, n: found.get(name) }));
}

export const title = () => {
  const learning = [...state.runs.values()].filter((run) => run.status === "learning").length;
  return learning ? `${learning} learning · Everlearn` : "Everlearn";
};

