// Mean |Δθ| by layer and batch as bars in space, as in the paper; all runs are turned together.

import { batchTicks, cut, FONT, picture, svg, text, theme } from "./draw.js";
import { chosen, recordAt, state } from "./state.js";
import { number, runName, sub } from "./words.js";

const STEP = Math.PI / 24;
const FIRST = { turn: -0.62, tilt: 0.46 };
const SHADES = [[68, 1, 84], [65, 68, 135], [42, 120, 142], [34, 168, 132], [122, 209, 81], [253, 231, 37]]; // viridis

export const moved = () => chosen().filter((run) => (state.details.get(run.id)?.records ?? []).some((record) => Object.keys(record.change).length));

export const layersOf = (run) => Object.keys(recordAt(run.id, Infinity)?.change ?? {});

const highestOf = (run) => Math.max(0, ...state.details.get(run.id).records.flatMap((record) => Object.values(record.change)));

// One scale for all runs, so that they can be compared; an upper bound, which keeps all patterns, may need its own.
function highest() {
  const runs = moved(), others = runs.filter((run) => !run.bound);
  return Math.max(0, ...(others.length ? others : runs).map(highestOf)) || 1;
}

const alone = (run) => highestOf(run) > highest();

function shade(k, n) {
  const first = theme().dark ? 0.3 : 0.12;
  const at = (n === 1 ? 0.5 : first + ((0.88 - first) * k) / (n - 1)) * (SHADES.length - 1), low = Math.min(SHADES.length - 2, Math.floor(at));
  return SHADES[low].map((one, c) => one + (SHADES[low + 1][c] - one) * (at - low));
}

const rgb = (colour) => `rgb(${colour.map((one) => Math.round(one)).join(" ")})`;
const hex = (colour) => [1, 3, 5].map((k) => parseInt(colour.slice(k, k + 2), 16));
const mix = (one, two, share) => one.map((value, k) => value * (1 - share) + two[k] * share);

// All that is drawn, from back to front: polygons, lines and texts in the picture's coordinates.
function scene(run, width, height) {
  const found = state.details.get(run.id), layers = layersOf(run), t = theme(), top = Math.max(highest(), highestOf(run));
  const of = Math.max(1, found?.stream?.of ?? 1), n = Math.max(1, layers.length);
  const { turn, tilt } = state.view;
  const cos = Math.cos(turn), sin = Math.sin(turn), up = Math.cos(tilt), over = Math.sin(tilt);
  const long = 1.15, deep = 1, tall = 0.72;
  const space = (x, y, z) => {
    const a = (x - 0.5) * long, b = (y - 0.5) * deep, c = z * tall;
    const across = a * cos - b * sin, away = a * sin + b * cos;
    return [across, -(c * up + away * over), away];
  };
  const size = Math.min((width - 58) / 1.53, (height - 34) / (tall * up + 1.53 * over));
  const middle = (tall * up) / 2;
  const at = (x, y, z) => {
    const [across, down, away] = space(x, y, z);
    return [width / 2 + 8 + across * size, height / 2 + (down + middle) * size - 2, away];
  };
  const out = [];
  const flat = (...points) => points.map(([x, y]) => [x, y]);
  const path = (points, colour, wide = 1) => out.push({ kind: "line", points: flat(...points), stroke: colour, wide });
  const near = (x, y) => space(x, y, 0)[2];
  // The floor and the two walls behind.
  const backX = near(0, 0.5) > near(1, 0.5) ? 0 : 1, backY = near(0.5, 0) > near(0.5, 1) ? 0 : 1;
  for (let k = 0; k <= 4; k++) {
    const z = k / 4;
    path([at(backX, 0, z), at(backX, 1, z)], k ? t.rule : t.firm);
    path([at(0, backY, z), at(1, backY, z)], k ? t.rule : t.firm);
  }
  path([at(1 - backX, 0, 0), at(1 - backX, 1, 0)], t.rule);
  path([at(0, 1 - backY, 0), at(1, 1 - backY, 0)], t.rule);
  path([at(backX, backY, 0), at(backX, backY, 1)], t.rule);
  // The chosen batch's lane on the floor.
  const shownAt = recordAt(run.id)?.i ?? 0;
  if (shownAt) out.push({ kind: "face", points: flat(at((shownAt - 1) / of, 0, 0), at(shownAt / of, 0, 0), at(shownAt / of, 1, 0), at((shownAt - 1) / of, 1, 0)), fill: rgb(mix(hex(t.paper), hex(t.link), 0.2)) });
  // Bars.
  const bars = [];
  for (const record of found?.records ?? [])
    layers.forEach((layer, k) => {
      const value = record.change[layer];
      if (value > 0) bars.push({ i: record.i, k, z: value / top, away: near((record.i - 0.5) / of, (k + 0.5) / n) });
    });
  bars.sort((a, b) => b.away - a.away);
  const padX = 0.16 / of, padY = 0.16 / n, paper = hex(t.paper);
  for (const bar of bars) {
    const x0 = (bar.i - 1) / of + padX, x1 = bar.i / of - padX, y0 = bar.k / n + padY, y1 = (bar.k + 1) / n - padY, z = bar.z;
    const base = shade(bar.k, n), now = bar.i === shownAt;
    const fade = now ? 0 : bar.i < shownAt ? 0.45 : 0.86;
    const edge = now ? rgb(mix(base, hex(t.ink), 0.75)) : rgb(mix(mix(base, paper, fade), paper, 0.5));
    const face = (light, ...points) => out.push({ kind: "face", points: flat(...points), fill: rgb(mix(mix(base, [0, 0, 0], 1 - light), paper, fade)), stroke: edge, wide: now ? 0.9 : 0.5 });
    const fx = backX ? x0 : x1, fy = backY ? y0 : y1;
    face(0.78, at(fx, y0, 0), at(fx, y1, 0), at(fx, y1, z), at(fx, y0, z));
    face(0.9, at(x0, fy, 0), at(x1, fy, 0), at(x1, fy, z), at(x0, fy, z));
    face(1, at(x0, y0, z), at(x1, y0, z), at(x1, y1, z), at(x0, y1, z));
  }
  // Words along the edges in front.
  const front = (1 - backY), side = (1 - backX);
  const word = (x, y, z, what, off, colour) => {
    const [px, py] = at(x, y, z), [cx, cy] = at(0.5, 0.5, 0);
    const far = Math.hypot(px - cx, py - cy) || 1;
    out.push({ kind: "text", x: px + ((px - cx) / far) * off, y: py + ((py - cy) / far) * off + 3.5, text: what, fill: colour ?? t.quiet });
  };
  for (const i of batchTicks(of, 10)) word((i - 0.5) / of, front, 0, String(i), 11, i === shownAt ? t.link : null);
  word(0.5, front, 0, "batch", 31);
  for (const k of batchTicks(n, 8)) word(side, (k - 0.5) / n, 0, String(k), 11);
  word(side, 0.5, 0, "layer", 31);
  const wall = at(backX, 1 - backY, 0)[0] < at(1 - backX, backY, 0)[0] ? [backX, 1 - backY] : [1 - backX, backY];
  for (const k of [0.5, 1]) {
    const [px, py] = at(wall[0], wall[1], k);
    out.push({ kind: "text", x: px - 4, y: py + 3, text: number(k * top, 2), fill: t.quiet, anchor: "end" });
  }
  return out;
}

export function paint(canvas, run) {
  const width = canvas.clientWidth, height = canvas.clientHeight, dots = Math.min(3, window.devicePixelRatio || 1);
  if (!width) return;
  if (canvas.width !== Math.round(width * dots)) canvas.width = Math.round(width * dots);
  if (canvas.height !== Math.round(height * dots)) canvas.height = Math.round(height * dots);
  const pen = canvas.getContext("2d");
  pen.setTransform(dots, 0, 0, dots, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = `10.5px ${FONT}`;
  pen.lineJoin = "round";
  for (const one of scene(run, width, height)) {
    if (one.kind === "text") {
      pen.textAlign = one.anchor ?? "center";
      pen.fillStyle = one.fill;
      pen.fillText(one.text, one.x, one.y);
      continue;
    }
    pen.beginPath();
    one.points.forEach(([x, y], k) => (k ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    if (one.kind === "face") { pen.closePath(); pen.fillStyle = one.fill; pen.fill(); }
    if (one.stroke) { pen.strokeStyle = one.stroke; pen.lineWidth = one.wide; pen.stroke(); }
  }
  const record = recordAt(run.id);
  canvas.dataset.batch = record ? record.i : "";
  canvas.dataset.turn = state.view.turn.toFixed(3);
  canvas.dataset.tilt = state.view.tilt.toFixed(3);
  canvas.setAttribute("aria-label", `${runName(run)}: mean change of the weights by layer and batch. ${spoken(record)} Turn it with the arrow keys, 0 turns it back.`);
}

function spoken(record) {
  if (!record) return "No record yet.";
  const found = Object.entries(record.change).sort((a, b) => b[1] - a[1])[0];
  return found ? `After batch ${record.i}, ${cut(found[0], 40)} changed most: ${number(found[1])}.` : "";
}

export function sheet(run, width, height) {
  const out = picture(width, height, `${runName(run)}: mean change of the weights by layer and batch`);
  for (const one of scene(run, width, height)) {
    if (one.kind === "text") out.append(text(one.x, one.y, one.text, { fill: one.fill, "font-size": 10.5, "text-anchor": one.anchor ?? "middle" }));
    else {
      const d = one.points.map(([x, y], k) => `${k ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("") + (one.kind === "face" ? "Z" : "");
      out.append(svg("path", { d, fill: one.kind === "face" ? one.fill : "none", stroke: one.stroke, "stroke-width": one.wide, "stroke-linejoin": "round" }));
    }
  }
  return out;
}

export function turn(by, tilt) {
  const around = 2 * Math.PI;
  state.view.turn = ((((state.view.turn + by + Math.PI) % around) + around) % around) - Math.PI;
  state.view.tilt = Math.min(1.4, Math.max(0.08, state.view.tilt + tilt));
}

export const back = () => Object.assign(state.view, FIRST);

export const KEYS = {
  ArrowLeft: () => turn(-STEP, 0), ArrowRight: () => turn(STEP, 0), ArrowUp: () => turn(0, STEP / 2), ArrowDown: () => turn(0, -STEP / 2),
  0: back, Home: back,
};

// Turned by mouse, pen, finger and keys. A finger that moves up or down scrolls the page: buttons tilt.
export function turnable(canvas, redraw) {
  let from = null;
  canvas.addEventListener("pointerdown", (event) => {
    from = [event.clientX, event.clientY];
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!from) return;
    turn((event.clientX - from[0]) * 0.011, event.pointerType === "touch" ? 0 : (event.clientY - from[1]) * 0.008);
    from = [event.clientX, event.clientY];
    redraw();
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { from = null; });
  canvas.addEventListener("keydown", (event) => {
    if (!(event.key in KEYS) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    KEYS[event.key]();
    redraw();
  });
}

export function note(run) {
  const record = recordAt(run.id);
  return record ? `B${sub(record.i)}${alone(run) ? ", a scale of its own" : ""}` : "no record yet";
}

export function rows() {
  const rows = [["benchmark", "strategy", "run", "folder", "batch", "layer", "mean_change"]];
  for (const run of moved())
    for (const record of state.details.get(run.id).records)
      for (const [layer, value] of Object.entries(record.change)) rows.push([run.benchmark, run.strategy, run.run, run.place, record.i, layer, value]);
  return rows;
}
