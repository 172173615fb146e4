// What is seen, as files.

import { FONT, svg, text, theme } from "./draw.js";

function give(name, kind, parts) {
  const address = URL.createObjectURL(new Blob(parts, { type: kind }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

// Pictures in a grid on one sheet, each under its name.
export function stack(title, pictures) {
  const t = theme(), gap = 20, above = 20;
  const columns = Math.min(4, pictures.length) || 1;
  const sizes = pictures.map(({ svg: one }) => [one.viewBox.baseVal.width, one.viewBox.baseVal.height]);
  const wide = Math.max(240, ...sizes.map((size) => size[0])), tall = Math.max(40, ...sizes.map((size) => size[1]));
  const rows = Math.ceil(pictures.length / columns);
  const width = columns * (wide + gap) + gap, height = rows * (tall + above + gap) + 34;
  const out = svg("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height, "font-family": FONT, "font-size": 11 });
  out.append(svg("rect", { width, height, fill: t.paper }), text(gap, 22, title, { fill: t.ink, "font-size": 14, "font-weight": 600 }));
  pictures.forEach(({ name, svg: one }, k) => {
    const x = gap + (k % columns) * (wide + gap), y = 34 + Math.floor(k / columns) * (tall + above + gap);
    const copy = one.cloneNode(true);
    copy.setAttribute("x", x);
    copy.setAttribute("y", y + above);
    out.append(text(x, y + 12, name, { fill: t.ink, "font-size": 12 }), copy);
  });
  return out;
}

const written = (sheet) => new XMLSerializer().serializeToString(sheet);

export const saveSVG = (name, sheet) => give(`${name}.svg`, "image/svg+xml", [written(sheet)]);

export async function savePNG(name, sheet) {
  const address = URL.createObjectURL(new Blob([written(sheet)], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const { width, height } = sheet.viewBox.baseVal, canvas = document.createElement("canvas");
    const dots = Math.min(2, 12_000 / Math.max(width, height));
    canvas.width = width * dots;
    canvas.height = height * dots;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
    give(`${name}.png`, "image/png", [blob]);
  } finally {
    URL.revokeObjectURL(address);
  }
}

// A text that a spreadsheet would take for a formula gets an apostrophe.
const cell = (value) => {
  if (value === null || value === undefined) return "";
  const written = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(written) ? `"${written.replaceAll('"', '""')}"` : written;
};

export const saveCSV = (name, rows) => give(`${name}.csv`, "text/csv;charset=utf-8", [rows.map((row) => row.map(cell).join(",")).join("\r\n"), "\r\n"]);

export const saveJSON = (name, value) => give(`${name}.json`, "application/json", [JSON.stringify(value, null, 1), "\n"]);
