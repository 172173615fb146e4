// The page: asks once a second what is new, and draws it.

import * as bars from "./bars.js";
import * as curves from "./curves.js";
import { cut, el, styles, onTheme, swatch } from "./draw.js";
import * as importance from "./importance.js";
import * as list from "./list.js";
import * as matrices from "./matrices.js";
import * as progress from "./progress.js";
import { saveCSV, saveJSON, savePNG, saveSVG, stack } from "./save.js";
import { age, ask, askForDetails, askForRuns, chosen, measure, recordAt, Refused, state } from "./state.js";
import { many, number, runName, statusReason, sub } from "./words.js";

const get = (id) => document.getElementById(id);
const slider = get("batch"), follow = get("follow"), play = get("play");
const EVERY = 1000, HIDDEN = 5000;

// --- panels ---------------------------------------------------------------------------------------

function panel(id, title, about, { wide = false, sheet = null, rows = null, tools = [] } = {}) {
  const body = el("div", { class: "body" });
  const buttons = [];
  if (sheet) for (const [kind, save] of [["SVG", saveSVG], ["PNG", savePNG]]) buttons.push([kind, () => save(`everlearn-${id}`, sheet())]);
  if (rows) buttons.push(["CSV", () => saveCSV(`everlearn-${id}`, rows())]);
  const exports = buttons.map(([kind, act]) => {
    const button = el("button", { type: "button", class: "small", "aria-label": `${title} as ${kind}` }, kind);
    button.addEventListener("click", act);
    return button;
  });
  const heading = el("h2", { id: `${id}-title` }, title);
  const section = el("section", { id, class: wide ? "panel wide" : "panel", "aria-labelledby": `${id}-title` },
    el("div", { class: "bar" }, heading, el("span", { class: "exports" }, ...tools, ...exports)),
    about ? el("p", { class: "note" }, about) : null, body);
  get("panels").append(section);
  return { section, body, heading };
}

const oneSheet = (title, make) => () => stack(title, [{ name: "", svg: make(720).svg }]);
const after = () => `after B${sub(state.batch)}`;

const seen = panel("seen", "Accuracy on the classes seen", null,
  { sheet: oneSheet("Accuracy on the classes seen, %", (width) => curves.accuracyChart("accuracy_seen", "Accuracy on the classes seen", width, 360)), rows: curves.accuracyRows });
const fixed = panel("fixed", "Accuracy on all classes", null,
  { sheet: oneSheet("Accuracy on all classes, %", (width) => curves.accuracyChart("accuracy", "Accuracy on all classes", width, 360)), rows: curves.accuracyRows });
const confusion = panel("confusion", "Confusion", "Rows true, columns predicted, classes in order of arrival; the stronger the colour, the more. Framed: the classes seen. A vertical band on the newest classes is forgetting; an empty one is a batch that was not learnt.",
  { wide: true, rows: matrices.rows, sheet: () => stack(`Confusion ${after()}`, chosen().map((run) => ({ name: `${runName(run)}: ${matrices.note(run)}`, svg: matrices.matrix(run, 260)?.svg })).filter((one) => one.svg)) });
const turning = [["←", "Turn left", "ArrowLeft"], ["→", "Turn right", "ArrowRight"], ["↑", "Tilt up", "ArrowUp"], ["↓", "Tilt down", "ArrowDown"], ["0", "Turn back", "0"]].map(([sign, name, key]) => {
  const button = el("button", { type: "button", class: "small turn", "aria-label": name, title: name }, sign);
  button.addEventListener("click", () => { bars.KEYS[key](); drawBars(); });
  return button;
});
const change = panel("change", "How far the weights moved", "Mean |Δθ| of each layer in each batch, layers from the input (1) on, one scale for all runs but an upper bound that needs more. Drag to turn, or use the arrow keys.",
  { wide: true, tools: turning, rows: bars.rows, sheet: () => stack(`Mean |Δθ| by layer and batch, B${sub(state.batch)} marked`, bars.moved().map((run) => ({ name: `${runName(run)}: ${bars.note(run)}`, svg: bars.sheet(run, 340, 270) }))) });
const loss = panel("loss", "Loss within the batch", null, { sheet: () => stack(`Loss within B${sub(state.batch)}`, [{ name: "", svg: curves.lossChart(720, 360).svg }]), rows: curves.lossRows });
const alarms = panel("look", "What to look at", null);
const weights = panel("importance", "Importance of the weights", "The number of weights by importance, both scales logarithmic and the same at every batch. Bars: F̂, which holds the next batch. Line: F, before it is clipped, and averaged in EWC. Dotted: the batch’s own part, Fⁱ. Zero: no bar shows them. Saturated: clipped at max F.",
  { wide: true, rows: importance.rows, sheet: () => stack(`Importance F̂ ${after()}`, importance.measured().map((run) => ({ name: `${runName(run)}: ${importance.note(run)}`, svg: importance.histogram(run, 300, 190) }))) });

const tellSeen = curves.readOut(seen.section, go), tellFixed = curves.readOut(fixed.section, go);

// --- drawing --------------------------------------------------------------------------------------

const room = (body) => Math.max(240, Math.floor(body.clientWidth || 480));

function drawCurves() {
  for (const [where, metric, tell] of [[seen, "accuracy_seen", tellSeen], [fixed, "accuracy", tellFixed]]) {
    const chart = curves.accuracyChart(metric, where.heading.textContent, room(where.body));
    where.body.replaceChildren(chart.svg);
    tell(chart);
  }
  drawLoss();
}

function drawLoss() {
  loss.heading.textContent = `Loss within B${sub(state.batch)}`;
  const chart = curves.lossChart(room(loss.body));
  loss.section.dataset.batch = state.batch;
  loss.body.replaceChildren(chart.empty ? el("p", { class: "quiet" }, "No step of this batch was logged.") : chart.svg);
}

// Small pictures of each run, side by side, each under its name; kept where they stand, so that focus stays.
function small(where, runs, make, noteOf) {
  const how = styles(chosen());
  const known = new Map([...where.body.children].filter((one) => one.dataset.id).map((one) => [one.dataset.id, one]));
  const wanted = runs.map((run) => {
    const figure = known.get(run.id) ?? el("figure", { "data-id": run.id }, el("figcaption", {}, el("span", { class: "mark" }), el("span", { class: "name", dir: "auto" }), el("span", { class: "after" })), el("div", { class: "drawing" }));
    const [mark, name, note] = figure.firstChild.children;
    mark.replaceChildren(swatch(how.get(run.id)));
    name.textContent = cut(runName(run), 40);
    note.textContent = noteOf(run);
    note.classList.toggle("late", (recordAt(run.id)?.i ?? 0) < state.batch);
    make(figure.lastChild, run);
    return figure;
  });
  for (const child of [...where.body.children]) if (!wanted.includes(child)) child.remove();
  wanted.forEach((one, k) => { if (where.body.children[k] !== one) where.body.insertBefore(one, where.body.children[k] ?? null); });
  wanted.forEach((one, k) => make(one.lastChild, runs[k], true));
}

function drawMatrices() {
  const runs = chosen().filter((run) => recordAt(run.id));
  confusion.body.classList.add("grid", "squares");
  small(confusion, runs, (box, run, placed) => { if (placed) box.replaceChildren(matrices.matrix(run, Math.min(420, Math.max(120, box.clientWidth || 200))).svg); }, matrices.note);
  if (!runs.length) confusion.body.replaceChildren(el("p", { class: "quiet" }, "No batch has been tested yet."));
}

function drawBars() {
  const runs = bars.moved();
  change.body.classList.add("grid", "bars");
  small(change, runs, (box, run, placed) => {
    if (!box.firstChild) {
      const canvas = el("canvas", { tabindex: 0, role: "img" });
      bars.turnable(canvas, drawBars);
      box.append(canvas);
    }
    if (placed) bars.paint(box.firstChild, run);
  }, bars.note);
  if (!runs.length) change.body.replaceChildren(el("p", { class: "quiet" }, "No change of weights has been recorded yet."));
  drawChanges(runs);
}

let changes = null;

function drawChanges(runs) {
  if (!changes) {
    changes = { table: el("table"), fold: el("details", { class: "numbers" }, el("summary", {}, "Numbers")) };
    changes.fold.append(el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Mean change of the weights, by layer" }, changes.table));
    change.section.append(changes.fold);
  }
  changes.fold.hidden = !runs.length;
  const layers = [...new Set(runs.flatMap((run) => bars.layersOf(run)))];
  changes.table.replaceChildren(
    el("caption", {}, `Mean |Δθ| in B${sub(state.batch)}, or in a run’s newest batch before it`),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Layer"), ...runs.map((run) => el("th", { scope: "col", dir: "auto" }, cut(runName(run), 24))))),
    el("tbody", {}, ...layers.map((layer, k) => el("tr", {}, el("th", { scope: "row", dir: "auto" }, `${k + 1}  ${layer}`), ...runs.map((run) => {
      const record = recordAt(run.id), value = record?.change[layer];
      return el("td", { "data-run": run.id, "data-layer": layer, "data-batch": record?.i, "data-value": value }, number(value));
    })))),
  );
}

function drawImportance() {
  const runs = importance.measured();
  weights.body.classList.add("grid", "bars");
  small(weights, runs, (box, run, placed) => { if (placed) box.replaceChildren(importance.histogram(run, Math.max(200, box.clientWidth || 280))); }, importance.note);
  if (!runs.length) weights.body.replaceChildren(el("p", { class: "quiet" }, "None of these runs measures importance. EWC, SI and AR1 do."));
}

// Alarms come with each run's details: what to look at, in words.
function drawAlarms() {
  const found = chosen().flatMap((run) => (state.details.get(run.id)?.alarms ?? []).map((alarm) => [run, alarm]));
  const problems = chosen().flatMap((run) => [run.problem, state.details.get(run.id)?.problem].filter(Boolean).slice(0, 1).map((text) => [run, { level: "red", text }]));
  const stopped = chosen().filter((run) => run.status === "stopped").map((run) => [run, { level: "amber", text: `stopped after ${many(run.done, "batch", "batches")}${run.planned ? ` of ${run.planned}` : ""}. ${statusReason(run, age(run))} The same command again goes on where it stopped.` }]);
  const all = [...problems, ...stopped, ...found];
  alarms.section.classList.toggle("some", all.length > 0);
  alarms.body.replaceChildren(all.length
    ? el("ul", { class: "alarms" }, ...all.map(([run, alarm]) => el("li", { "data-level": alarm.level ?? "" }, el("b", { dir: "auto" }, cut(runName(run), 40)), ": ", el("span", { dir: "auto" }, String(alarm.text ?? "")))))
    : el("p", { class: "quiet" }, "Nothing stands out in the selected runs."));
}

function drawSlider() {
  slider.max = String(state.last);
  slider.value = String(state.batch);
  slider.setAttribute("aria-valuetext", `batch ${state.batch} of ${state.last}`);
  get("where").textContent = `${state.batch} of ${state.last}`;
  follow.checked = state.follow;
}

function drawAll() {
  const any = chosen().length > 0;
  for (const id of ["watch", "scrub", "panels"]) get(id).hidden = !any;
  get("empty").hidden = any;
  get("empty").textContent = state.runs.size ? "Select runs to compare them." : state.scanning ? "Looking for runs…" : "No run yet. This page shows the first one as soon as it begins.";
  if (!any) return;
  drawSlider();
  progress.draw();
  drawCurves();
  drawMatrices();
  drawBars();
  drawImportance();
  drawAlarms();
}

let waiting = false;
function draw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; drawAll(); });
}

function drawHead() {
  document.title = list.title();
  get("folder").textContent = state.folder;
  get("counts").replaceChildren(...list.counts().map(({ name, word, n }) => el("span", { "data-status": name }, el("span", { class: "dot", "aria-hidden": "true" }), `${n} ${word}`)));
}

// --- moving through the batches -------------------------------------------------------------------

function go(batch, { hold = true } = {}) {
  state.batch = Math.min(Math.max(1, batch), state.last);
  if (hold) state.follow = state.batch === state.newest;
  remember();
  draw();
  askForDetails().then((any) => any && draw()).catch(lost);
}

slider.addEventListener("input", () => { stop(); go(Number(slider.value)); });
follow.addEventListener("change", () => {
  state.follow = follow.checked;
  if (state.follow) go(state.newest, { hold: false });
});

let playing = null;
function stop() {
  clearInterval(playing);
  playing = null;
  play.setAttribute("aria-pressed", "false");
}
play.addEventListener("click", () => {
  if (playing) { stop(); return; }
  play.setAttribute("aria-pressed", "true");
  go(state.batch >= state.last ? 1 : state.batch + 1);
  playing = setInterval(() => { if (state.batch >= state.last) stop(); else go(state.batch + 1); }, 900);
});

// The selection and the batch stand in the address, so that a reload keeps them.
function remember() {
  const parts = [`runs=${state.selected.join(",")}`, ...(state.follow ? [] : [`batch=${state.batch}`])];
  history.replaceState(null, "", `#${parts.join("&")}`);
}

function recall() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const batch = Number(parts.get("batch"));
  if (batch >= 1) { state.follow = false; state.batch = Math.floor(batch); state.last = Math.max(state.last, state.batch); }
  return parts.has("runs") ? parts.get("runs").split(",").filter((id) => state.runs.has(id)) : null;
}

// --- asking ---------------------------------------------------------------------------------------

let decided = false, listed = false, timer = null, busy = false, failed = 0;

async function refresh() {
  const any = await askForRuns();
  if (any) {
    list.draw();
    drawHead();
    if (!listed && !state.scanning) { listed = true; requestAnimationFrame(() => performance.mark("everlearn-list")); }
    if (!decided && state.runs.size && !state.scanning) {
      decided = true;
      const asked = recall();
      list.select(asked && asked.length ? asked : list.firstChoice());
    }
  }
  const moved = measure();
  const news = await askForDetails();
  if (measure() || moved || news || any) draw();
  else progress.draw(); // ages go on
}

function lost(error) {
  failed += 1;
  const box = get("link");
  box.dataset.state = "lost";
  box.textContent = error instanceof Refused ? error.message : "The server does not answer. What is shown is what was last known.";
}

async function tick() {
  clearTimeout(timer);
  if (busy) return;
  busy = true;
  try {
    await refresh();
    failed = 0;
    get("link").dataset.state = "live";
    if (get("link").textContent !== "Live") get("link").textContent = "Live";
  } catch (error) {
    lost(error);
  } finally {
    busy = false;
    timer = setTimeout(tick, failed ? Math.min(15_000, EVERY * 2 ** Math.min(failed, 4)) : document.hidden ? HIDDEN : state.scanning ? 200 : EVERY);
  }
}

list.setUp(() => {
  measure();
  if (decided) remember();
  drawHead();
  draw();
  askForDetails().then((any) => { measure(); if (any) draw(); }).catch(lost);
});
get("save-json").addEventListener("click", async () => {
  const found = await ask(`/api/export?runs=${state.selected.join(",")}`).catch(lost);
  if (found) saveJSON("everlearn-records", found);
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) tick(); });
new ResizeObserver(draw).observe(get("panels"));
onTheme(() => { list.draw(); draw(); });
if (matchMedia("(max-width: 60rem)").matches) get("runs").open = false;
tick();
