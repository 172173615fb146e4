"use strict";
// Two comforts: numbers under the pointer, and a slider for the matrices. All that they show is on the page without them.

function readOut(panel) {
  const chart = panel.querySelector(".chart");
  const rows = [...document.getElementById(panel.dataset.numbers).querySelectorAll("tr[data-k]")];
  const boxes = panel.closest(".curves").querySelectorAll(".legend input");
  const of = Number(chart.dataset.of), from = Number(chart.dataset.from), to = Number(chart.dataset.to);
  const width = chart.viewBox.baseVal.width, height = chart.viewBox.baseVal.height;
  const tip = panel.appendChild(document.createElement("div"));
  const cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
  let batch = 0;
  tip.className = "tip";
  tip.setAttribute("role", "status");
  cursor.setAttribute("class", "cursor");
  cursor.setAttribute("y1", 12);
  cursor.setAttribute("y2", height - 42);
  chart.querySelector(".axes").append(cursor);
  chart.querySelectorAll(".series title").forEach((title) => title.remove());
  chart.setAttribute("tabindex", "0");

  function show(i) {
    batch = Math.min(Math.max(i, 0), of);
    tip.hidden = batch === 0;
    cursor.style.display = batch ? "" : "none";
    if (!batch) return;
    const x = of === 1 ? from : from + ((to - from) * (batch - 1)) / (of - 1);
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    const there = rows.filter((row) => boxes[row.dataset.k].checked && row.cells[batch].dataset.value);
    there.sort((a, b) => b.cells[batch].dataset.value - a.cells[batch].dataset.value);
    const title = document.createElement("p");
    title.textContent = `Batch ${batch}`;
    tip.replaceChildren(title, ...there.map((row) => {
      const line = document.createElement("div"), name = document.createElement("span"), value = document.createElement("span");
      name.textContent = row.cells[0].textContent;
      value.textContent = row.cells[batch].textContent;
      line.append(row.querySelector(".swatch").cloneNode(true), name, value);
      return line;
    }));
    const at = (x / width) * panel.clientWidth;
    const room = panel.clientWidth - tip.offsetWidth;
    tip.style.left = `${Math.max(0, Math.min(room, at > panel.clientWidth / 2 ? at - tip.offsetWidth - 14 : at + 14))}px`;
  }

  chart.addEventListener("pointermove", (event) => {
    const box = chart.getBoundingClientRect();
    const share = (((event.clientX - box.left) / box.width) * width - from) / (to - from || 1);
    show(Math.min(Math.max(Math.round(share * (of - 1)) + 1, 1), of));
  });
  chart.addEventListener("pointerleave", () => show(0));
  chart.addEventListener("blur", () => show(0));
  chart.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: Math.max(batch - 1, 1), ArrowRight: batch + 1, Home: 1, End: of, Escape: 0 };
    if (!(event.key in moves)) return;
    event.preventDefault();
    show(moves[event.key]);
  });
  show(0);
}

function slide(figure) {
  const box = figure.querySelector(".slider");
  if (!box) return;
  const input = box.querySelector("input"), output = box.querySelector("output");
  const steps = input.dataset.steps.split(" "), of = output.textContent.split(" of ")[1];
  const strips = [...figure.querySelectorAll(".strip")], large = [...figure.querySelectorAll(".one")];

  function show() {
    const batch = steps[input.value];
    output.textContent = `${batch} of ${of}`;
    input.setAttribute("aria-valuetext", `batch ${batch} of ${of}`);
    strips.forEach((strip, k) => {
      const items = [...strip.children];
      items.forEach((item) => item.classList.toggle("now", item.dataset.batch === batch));
      const item = items.filter((one) => Number(one.dataset.batch) <= Number(batch)).pop() || items[0];
      const from = item.querySelector(".cm"), to = large[k].querySelector(".cm");
      to.replaceChildren(...from.cloneNode(true).childNodes);
      to.setAttribute("aria-label", from.getAttribute("aria-label"));
      large[k].querySelector(".after").textContent = item.dataset.note;
    });
  }

  box.hidden = false;
  input.addEventListener("input", show);
  show();
}

document.querySelectorAll(".curves .panel").forEach(readOut);
document.querySelectorAll(".matrices").forEach(slide);
