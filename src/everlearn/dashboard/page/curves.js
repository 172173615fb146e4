// Accuracy by batch, and the loss within one.

import { apart, batchTicks, cut, el, styles, picture, svg, swatch, text, theme, ticks } from "./draw.js";
import { chosen, recordAt, state } from "./state.js";
import { number, percent, runName, sub, ten } from "./words.js";

const FRAME = { left: 40, above: 10, below: 34 };

// A frame's coordinates. Labels at the lines' ends need room; a narrow picture does without.
function frame(width, height, names) {
  const longest = Math.max(0, ...names.map((name) => Math.min(16, [...name].length)));
  const right = width < 420 || names.length > 14 ? 12 : 16 + 6.3 * longest;
  return { ...FRAME, width, height, end: width - right, floor: height - FRAME.below, labels: right > 12 };
}

export function accuracyChart(metric, title, width, height = 250) {
  const runs = chosen(), how = styles(runs), t = theme();
  const series = runs.map((run) => ({
    run, name: runName(run), style: how.get(run.id),
    points: (state.details.get(run.id)?.records ?? []).map((record) => [record.i, record[metric]]),
  })).filter((one) => one.points.length);
  const of = Math.max(1, ...runs.map((run) => run.planned ?? 1), ...series.map((one) => one.points.length));
  const box = frame(width, height, series.map((one) => one.name));
  const x = (i) => (of === 1 ? (box.left + box.end) / 2 : box.left + 8 + ((box.end - box.left - 8) * (i - 1)) / (of - 1));
  const y = (value) => box.floor - (box.floor - box.above) * value;
  const out = picture(width, height, `${title}, by batch. ${series.map((one) => spoken(one, metric)).join("; ")}`);
  for (const value of [0, 0.2, 0.4, 0.6, 0.8, 1]) {
    out.append(svg("path", { d: `M${box.left} ${y(value)}H${box.end}`, stroke: value ? t.rule : t.firm, "stroke-width": 1 }));
    out.append(text(box.left - 7, y(value) + 4, value === 1 ? "100 %" : 100 * value, { "text-anchor": "end" }));
  }
  for (const i of batchTicks(of, width < 420 ? 8 : 12)) out.append(text(x(i), box.floor + 16, i, { "text-anchor": "middle" }));
  out.append(text((box.left + box.end) / 2, height - 3, "batch", { "text-anchor": "middle" }));
  const at = Math.min(state.batch, of);
  out.append(svg("path", { class: "marker", "data-batch": at, d: `M${x(at)} ${box.above}V${box.floor}`, stroke: t.link, "stroke-width": 6, opacity: 0.22 }));
  for (const one of series) line(out, one, x, y);
  if (box.labels) endLabels(out, series, box, y, x);
  for (const one of series) {
    const point = one.points.find(([i]) => i === at);
    if (point) out.append(svg("circle", { cx: x(at), cy: y(point[1]), r: 5, fill: "none", stroke: t[one.style.colour], "stroke-width": 1.5 }));
  }
  return { svg: out, series, of, x };
}

const spoken = (one, metric) => {
  const record = recordAt(one.run.id);
  return record ? `${one.name}: ${percent(record[metric])} % after batch ${record.i}` : one.name;
};

function line(out, one, x, y) {
  const colour = theme()[one.style.colour];
  const path = one.points.map(([i, value], k) => `${k ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  out.append(svg("path", { d: path, fill: "none", stroke: colour, "stroke-width": 1.9, "stroke-linejoin": "round", "stroke-dasharray": one.style.dash }));
  if (one.points.length > 60) return;
  for (const [i, value] of one.points)
    out.append(svg("path", { d: one.style.mark, transform: `translate(${x(i).toFixed(1)} ${y(value).toFixed(1)})`, fill: colour, stroke: theme().paper, "stroke-width": 0.9 }));
}

function endLabels(out, series, box, y, x) {
  const wanted = series.map((one) => y(one.points[one.points.length - 1][1]));
  const placed = apart(wanted, 13, box.above + 4, box.floor);
  series.forEach((one, k) => {
    const colour = theme()[one.style.colour], end = x(one.points[one.points.length - 1][0]);
    if (end < box.end - 4) out.append(svg("path", { d: `M${end + 6} ${wanted[k]}H${box.end}`, stroke: colour, "stroke-width": 1, opacity: 0.5, "stroke-dasharray": "1 4" }));
    out.append(svg("path", { d: `M${box.end + 2} ${wanted[k]}L${box.end + 10} ${placed[k]}`, stroke: colour, "stroke-width": 1, opacity: 0.75, fill: "none" }));
    out.append(text(box.end + 13, placed[k] + 4, cut(one.name, 16), { fill: theme().ink }));
  });
}

// The loss within the slider's batch, one logged step a point, on a logarithmic scale.
export function lossChart(width, height = 250) {
  const runs = chosen(), how = styles(runs), t = theme();
  const series = runs.map((run) => {
    const found = state.steps.get(run.id);
    const points = found && found.i === state.batch ? found.points.filter((one) => one[2] !== null) : [];
    return { run, name: runName(run), style: how.get(run.id), steps: found?.steps ?? 0, points: points.map((one) => [one[0], Math.max(one[2], 1e-8)]) };
  }).filter((one) => one.points.length);
  const box = frame(width, height, series.map((one) => one.name));
  const values = series.flatMap((one) => one.points.map((point) => point[1]));
  const out = picture(width, height, `Loss within batch ${state.batch}. ${series.map((one) => `${one.name}: ${number(one.points[one.points.length - 1][1])} at step ${one.points[one.points.length - 1][0]}`).join("; ")}`);
  if (!values.length) return { svg: out, series, empty: true };
  const steps = Math.max(1, ...series.map((one) => Math.max(one.steps ?? 0, one.points[one.points.length - 1][0])));
  let low = Math.floor(Math.log10(values.reduce((a, b) => Math.min(a, b)))), high = Math.ceil(Math.log10(values.reduce((a, b) => Math.max(a, b))));
  if (high <= low) high = low + 1;
  low = Math.max(low, high - 6);
  const x = (step) => box.left + 8 + ((box.end - box.left - 8) * step) / steps;
  const y = (value) => box.floor - (box.floor - box.above) * Math.min(1, Math.max(0, (Math.log10(value) - low) / (high - low)));
  for (let power = low; power <= high; power++) {
    out.append(svg("path", { d: `M${box.left} ${y(10 ** power)}H${box.end}`, stroke: power === low ? t.firm : t.rule, "stroke-width": 1 }));
    out.append(text(box.left - 7, y(10 ** power) + 4, power >= -3 && power <= 3 ? String(10 ** power).slice(0, 5) : ten(power), { "text-anchor": "end" }));
  }
  for (const step of ticks(steps, 4).filter((one) => one <= steps)) out.append(text(x(step), box.floor + 16, step, { "text-anchor": "middle" }));
  out.append(text((box.left + box.end) / 2, height - 3, `step of B${sub(state.batch)}`, { "text-anchor": "middle" }));
  for (const one of series) line(out, one, x, y);
  if (box.labels) endLabels(out, series, box, y, x);
  return { svg: out, series, steps };
}

export function accuracyRows() {
  const rows = [["benchmark", "strategy", "run", "folder", "batch", "accuracy_seen", "accuracy"]];
  for (const run of chosen())
    for (const record of state.details.get(run.id)?.records ?? [])
      rows.push([run.benchmark, run.strategy, run.run, run.place, record.i, record.accuracy_seen, record.accuracy]);
  return rows;
}

export function lossRows() {
  const rows = [["benchmark", "strategy", "run", "folder", "batch", "step", "epoch", "loss", "eta", "images_per_second"]];
  for (const run of chosen())
    for (const point of state.steps.get(run.id)?.points ?? [])
      rows.push([run.benchmark, run.strategy, run.run, run.place, state.batch, ...point]);
  return rows;
}

// Numbers under the pointer; a click moves the slider there.
export function readOut(panel, go) {
  const tip = panel.appendChild(el("div", { class: "tip", hidden: true }));
  let shown = null;
  const batchAt = (event) => {
    const box = shown.svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * shown.svg.viewBox.baseVal.width;
    let best = 1;
    for (let i = 1; i <= shown.of; i++) if (Math.abs(shown.x(i) - at) < Math.abs(shown.x(best) - at)) best = i;
    return best;
  };
  panel.addEventListener("pointermove", (event) => {
    if (!shown || !shown.svg.contains(event.target)) { tip.hidden = true; return; }
    const i = batchAt(event);
    const there = shown.series.map((one) => [one, one.points.find((point) => point[0] === i)]).filter(([, point]) => point);
    there.sort((a, b) => b[1][1] - a[1][1]);
    tip.replaceChildren(el("p", {}, `Batch ${i}`), ...there.map(([one, point]) =>
      el("div", {}, swatch(one.style), el("span", { dir: "auto" }, cut(one.name, 30)), el("span", {}, percent(point[1])))));
    tip.hidden = !there.length;
    const place = panel.getBoundingClientRect(), x = event.clientX - place.left;
    tip.style.left = `${Math.max(0, x > place.width / 2 ? x - tip.offsetWidth - 14 : x + 14)}px`;
  });
  panel.addEventListener("pointerleave", () => { tip.hidden = true; });
  panel.addEventListener("click", (event) => { if (shown && shown.svg.contains(event.target)) go(batchAt(event)); });
  return (chart) => { shown = chart; };
}
