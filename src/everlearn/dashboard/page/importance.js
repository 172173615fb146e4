// The distributions of F, F^i and F̂ after the slider's batch, on logarithmic scales that stay while the slider moves.

import { styles, picture, svg, text, theme } from "./draw.js";
import { chosen, recordAt, state } from "./state.js";
import { runName, sub, ten } from "./words.js";

const percentOf = (share) => {
  if (!(share > 0)) return "0 %";
  const digits = Math.max(0, 1 - Math.floor(Math.log10(100 * share)));
  return `${(100 * share).toFixed(Math.min(digits, 4))} %`;
};

export const measured = () => chosen().filter((run) => (state.details.get(run.id)?.records ?? []).some((record) => record.importance));

const all = (found) => (found ? [found, found.F, found.F_i].filter(Boolean) : []);

function range() {
  let low = Infinity, high = 0, top = 1;
  for (const run of measured())
    for (const { importance } of state.details.get(run.id).records) {
      for (const one of all(importance))
        one.counts.forEach((count, k) => {
          if (!count) return;
          low = Math.min(low, one.edges[k]);
          high = Math.max(high, one.edges[k + 1]);
          top = Math.max(top, count);
        });
    }
  return high ? { low: Math.log10(low), high: Math.log10(high), top: Math.ceil(Math.log10(top * 1.3)) } : { low: -6, high: 0, top: 1 };
}

export function histogram(run, width, height = 170) {
  const t = theme(), record = recordAt(run.id), style = styles(chosen()).get(run.id);
  const found = record?.importance, box = { left: 34, above: 8, below: 32 };
  const label = found
    ? `${runName(run)} after batch ${record.i}: importance of the weights, ${percentOf(found.zero)} zero, ${percentOf(found.saturated)} saturated`
    : `${runName(run)}: no importance at this batch`;
  const out = picture(width, height, label), { low, high, top } = range();
  if (!found) return out;
  out.dataset.batch = record.i;
  const x = (value) => box.left + ((width - box.left - 8) * (Math.log10(value) - low)) / (high - low || 1);
  const floor = height - box.below, y = (count) => floor - (floor - box.above) * Math.min(1, Math.log10(Math.max(1, count * 1.3)) / top);
  for (let power = 0; power <= top; power += top > 4 ? 2 : 1) {
    out.append(svg("path", { d: `M${box.left} ${y(10 ** power / 1.3)}H${width - 8}`, stroke: power ? t.rule : t.firm, "stroke-width": 1 }));
    out.append(text(box.left - 5, y(10 ** power / 1.3) + 4, power > 3 ? ten(power) : 10 ** power, { "text-anchor": "end", "font-size": 10 }));
  }
  const every = Math.max(1, Math.ceil((high - low) / 5));
  for (let power = Math.ceil(low); power <= high; power += every)
    out.append(text(x(10 ** power), floor + 14, ten(power), { "text-anchor": "middle", "font-size": 10 }));
  out.append(text((box.left + width) / 2, height - 3, found.F ? "F̂, F and Fⁱ" : "F̂", { "text-anchor": "middle" }));
  found.counts.forEach((count, k) => {
    if (!count) return;
    const from = x(found.edges[k]), to = x(found.edges[k + 1]);
    out.append(svg("rect", { x: from.toFixed(1), y: y(count).toFixed(1), width: Math.max(0.8, to - from - 0.6).toFixed(1), height: (floor - y(count)).toFixed(1), fill: t[style.colour] }));
  });
  for (const [one, dash] of [[found.F, null], [found.F_i, "2 2"]])
    if (one) out.append(svg("path", { class: "raw", d: steps(one, x, y, floor), fill: "none", stroke: t.ink, "stroke-width": 1.1, "stroke-dasharray": dash }));
  return out;
}

// A histogram's outline, along the floor where nothing is counted.
function steps(one, x, y, floor) {
  const first = one.counts.findIndex(Boolean), last = one.counts.findLastIndex(Boolean);
  if (first < 0) return "";
  let path = `M${x(one.edges[first]).toFixed(1)} ${floor}`;
  for (let k = first; k <= last; k++) path += `V${(one.counts[k] ? y(one.counts[k]) : floor).toFixed(1)}H${x(one.edges[k + 1]).toFixed(1)}`;
  return `${path}V${floor}`;
}

export function note(run) {
  const record = recordAt(run.id);
  if (!record) return "no record yet";
  if (!record.importance) return `B${sub(record.i)}, none`;
  return `B${sub(record.i)}, zero ${percentOf(record.importance.zero)}, saturated ${percentOf(record.importance.saturated)}`;
}

export function rows() {
  const rows = [["benchmark", "strategy", "run", "folder", "batch", "of", "from", "to", "weights", "zero", "saturated"]];
  for (const run of measured()) {
    const record = recordAt(run.id), found = record?.importance;
    for (const [name, one] of [["F_hat", found], ["F", found?.F], ["F_i", found?.F_i]])
      one?.counts.forEach((count, k) => rows.push([run.benchmark, run.strategy, run.run, run.place, record.i, name, one.edges[k], one.edges[k + 1], count, one.zero, one.saturated ?? ""]));
  }
  return rows;
}
