// Elements, colours and scales. Texts become text nodes; nothing is ever read as markup.

import { DASHES, MARKERS, SCALE } from "./constants.js";

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

export const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
export const svg = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

let colours = null;

// The colours of the present theme, by name; resolved, so that a picture looks the same in a file.
export function theme() {
  if (colours) return colours;
  const style = getComputedStyle(document.documentElement);
  const names = ["paper", "raised", "ink", "quiet", "rule", "firm", "link", "seen", ...Array.from({ length: 9 }, (_, k) => `p${k}`)];
  colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  colours.dark = matchMedia("(prefers-color-scheme: dark)").matches;
  colours.scale = colours.dark ? SCALE.map(turned) : SCALE;
  return colours;
}

export function onTheme(then) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    colours = null;
    then();
  });
}

// The scale on a dark page: inverted, its hue turned back; as the report's filter does.
function turned([r, g, b]) {
  const [x, y, z] = [255 - r, 255 - g, 255 - b];
  const rows = [[-0.574, 1.43, 0.144], [0.426, 0.43, 0.144], [0.426, 1.43, -0.856]];
  return rows.map((row) => Math.min(255, Math.max(0, Math.round(row[0] * x + row[1] * y + row[2] * z))));
}

// How a run is drawn: as its strategy; a second run of it has other dashes and marks.
export function styles(runs) {
  const seen = new Map(), found = new Map();
  for (const run of runs) {
    const key = `${run.benchmark}\n${run.strategy}`;
    const k = seen.get(key) ?? 0;
    seen.set(key, k + 1);
    const dash = DASHES[(run.style.dash + k) % DASHES.length];
    found.set(run.id, {
      colour: `p${run.style.colour}`,
      dash: dash === "none" ? null : dash,
      mark: MARKERS[(run.style.marker + k) % MARKERS.length],
    });
  }
  return found;
}

export function swatch(style) {
  const colour = theme()[style.colour];
  return svg("svg", { viewBox: "0 0 26 12", class: "swatch", "aria-hidden": "true" },
    svg("path", { d: "M1 6H25", stroke: colour, "stroke-width": 1.9, "stroke-dasharray": style.dash, fill: "none" }),
    svg("path", { d: style.mark, transform: "translate(13 6)", fill: colour }));
}

export const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif';

export const text = (x, y, content, attributes) =>
  svg("text", { x, y, fill: theme().quiet, "font-size": 11, ...attributes }, String(content));

// An empty picture of this size, with a name for those who do not see it.
export function picture(width, height, label) {
  return svg("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label, "font-family": FONT, "font-size": 11,
  });
}

// Round values from 0 to the first at or above the top.
export function ticks(top, most = 5) {
  if (!(top > 0)) return [0, 1];
  const power = 10 ** Math.floor(Math.log10(top / most));
  const width = [1, 2, 5, 10, 20].map((k) => power * k).find((one) => one * most >= top * (1 - 1e-9));
  return Array.from({ length: Math.ceil(top / width - 1e-9) + 1 }, (_, k) => Number((k * width).toPrecision(12)));
}

export function batchTicks(of, most = 12) {
  if (of <= most) return Array.from({ length: of }, (_, k) => k + 1);
  const round = ticks(of, Math.max(2, Math.floor(most / 2)));
  const width = Math.max(1, Math.round(round[1]));
  const found = [1];
  for (let i = width; i <= of; i += width) if (i > 1) found.push(i);
  return found;
}

// Positions as near to the wanted ones as a gap between them allows.
export function apart(wanted, gap, low, high) {
  const order = wanted.map((_, k) => k).sort((a, b) => wanted[a] - wanted[b]);
  const room = Math.min(gap, (high - low) / Math.max(1, order.length - 1));
  const blocks = [];
  for (const k of order) {
    let block = [k], start = wanted[k];
    for (;;) {
      start = block.reduce((sum, one, place) => sum + wanted[one] - room * place, 0) / block.length;
      start = Math.max(low, Math.min(start, high - room * (block.length - 1)));
      const before = blocks[blocks.length - 1];
      if (!before || before.start + room * before.block.length <= start) break;
      block = [...blocks.pop().block, ...block];
    }
    blocks.push({ start, block });
  }
  const placed = [];
  for (const { start, block } of blocks) block.forEach((k, place) => { placed[k] = start + room * place; });
  return placed;
}

export function cut(name, most) {
  const letters = [...name];
  return letters.length <= most ? name : `${letters.slice(0, most - 1).join("")}…`;
}
