// Confusion matrices at the slider's batch: rows true, columns predicted, classes in order of arrival.

import { picture, svg, text, theme } from "./draw.js";
import { chosen, recordAt, state } from "./state.js";
import { percent, runName, sub } from "./words.js";

const EMPTY = 63; // the colour of a class without a test pattern
const paper = document.createElement("canvas");

// One pixel a cell; the scale goes by the square root, so that what is faint can be seen too.
function pixels(confusion, patterns) {
  const n = confusion.length, scale = theme().scale;
  paper.width = paper.height = Math.max(1, n);
  const pen = paper.getContext("2d", { willReadFrequently: true }), image = pen.createImageData(Math.max(1, n), Math.max(1, n));
  for (let row = 0; row < n; row++) {
    for (let column = 0; column < n; column++) {
      const at = patterns[row] ? Math.round(Math.sqrt(Math.min(1, confusion[row][column] / patterns[row])) * (EMPTY - 1)) : EMPTY;
      image.data.set([...scale[at], 255], 4 * (n * row + column));
    }
  }
  pen.putImageData(image, 0, 0);
  return paper.toDataURL();
}

const drawn = new Map(); // what a matrix looks like, so that it is painted once

function imageOf(id, generation, record, patterns) {
  const key = `${id} ${generation} ${record.i} ${theme().dark}`;
  if (!drawn.has(key)) {
    if (drawn.size > 400) drawn.clear();
    drawn.set(key, pixels(record.confusion, patterns));
  }
  return drawn.get(key);
}

// A run's matrix, with the borders of batches and a frame around the classes seen.
export function matrix(run, size) {
  const found = state.details.get(run.id), record = recordAt(run.id), t = theme();
  if (!found || !record) return null;
  const n = record.confusion.length, left = 13, below = 13, unit = (size - left) / n;
  const arrived = found.stream.arrived, seen = arrived[record.i - 1];
  const right = record.confusion.reduce((sum, row, k) => sum + row[k], 0);
  const out = picture(size, size - left + below, `${runName(run)} after batch ${record.i}: ${percent(record.accuracy_seen)} % of the test patterns of ${seen} classes are right, ${right} in all`);
  out.dataset.batch = record.i;
  out.append(svg("image", { href: imageOf(run.id, found.generation, record, found.stream.patterns), x: left, y: 0, width: unit * n, height: unit * n, preserveAspectRatio: "none", "image-rendering": "pixelated" }));
  const cuts = [...new Set(arrived)].filter((one) => one < n);
  if (cuts.length <= 60)
    out.append(svg("path", { d: cuts.map((one) => `M${left + unit * one} 0v${unit * n}M${left} ${unit * one}h${unit * n}`).join(""), stroke: t.ink, "stroke-opacity": 0.18, "stroke-width": 1 }));
  out.append(svg("rect", { x: left + 0.5, y: 0.5, width: unit * n - 1, height: unit * n - 1, fill: "none", stroke: t.firm }));
  out.append(svg("rect", { x: left + 0.75, y: 0.75, width: unit * seen - 1.5, height: unit * seen - 1.5, fill: "none", stroke: t.seen, "stroke-width": 1.5 }));
  out.append(text(left, size - left + 11, "predicted →", { "font-size": 10 }));
  out.append(text(0, 0, "← true", { "font-size": 10, transform: `translate(9 ${unit * n}) rotate(-90)` }));
  return { svg: out, record };
}

export function note(run) {
  const record = recordAt(run.id);
  if (!record) return "no record yet";
  return `B${sub(record.i)}, ${percent(record.accuracy_seen)} %`;
}

export function rows() {
  const rows = [["benchmark", "strategy", "run", "folder", "batch", "true", "predicted", "patterns"]];
  for (const run of chosen()) {
    const record = recordAt(run.id), order = state.details.get(run.id)?.stream?.order;
    record?.confusion.forEach((line, k) => line.forEach((count, j) => {
      if (count) rows.push([run.benchmark, run.strategy, run.run, run.place, record.i, order[k], order[j], count]);
    }));
  }
  return rows;
}

