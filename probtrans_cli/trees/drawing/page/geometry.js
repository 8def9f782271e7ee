"use strict";
// Where words and arcs stand: layout.py and svg.py's paths once more, as arcs move with the sliders. A test holds the paths
// together with those of the SVG. This file, pictures.js and controls.js are one script.

const byId = (id) => document.getElementById(id);
const geometry = JSON.parse(byId("geometry").textContent);

const left = (arc) => Math.min(arc.dependent, arc.head);
const right = (arc) => Math.max(arc.dependent, arc.head);

/** Height of each arc, from 1: the lowest above every arc within it. Root: 0. */
function levels(arcs, count) {
  const skyline = new Array(count + 1).fill(0);
  const result = new Array(arcs.length).fill(0);
  const order = arcs.map((_, index) => index);
  const key = (i) => right(arcs[i]) - left(arcs[i]);
  order.sort((i, j) => key(i) - key(j) || left(arcs[i]) - left(arcs[j]) || i - j);
  for (const index of order) {
    const arc = arcs[index];
    if (arc.head === 0) continue;
    let highest = 0;
    for (let gap = left(arc); gap < right(arc); gap++) highest = Math.max(highest, skyline[gap]);
    result[index] = highest + 1;
    skyline.fill(highest + 1, left(arc), right(arc));
  }
  return result;
}

/** For each word the indices of its arcs from left to right: near ones of the left, root arrows, far ones of the right. */
function ends(arcs, heights, count) {
  const at = Array.from({ length: count }, () => []);
  arcs.forEach((arc, index) => {
    if (arc.head === 0) {
      at[arc.dependent - 1].push([1, 0, 0, index]);
      return;
    }
    const span = right(arc) - left(arc);
    at[right(arc) - 1].push([0, span, heights[index], index]);
    at[left(arc) - 1].push([2, -span, -heights[index], index]);
  });
  const compare = (a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2] || a[3] - b[3];
  return at.map((word) => word.sort(compare).map((end) => end[3]));
}

/** Height of an arc in steps; a root's arrow starts above all arcs over its word. */
function rise(arcs, heights, index) {
  const arc = arcs[index];
  if (arc.head !== 0) return heights[index];
  let over = 0;
  let earlier = 0;
  arcs.forEach((other, i) => {
    if (other.head === 0) earlier += i < index && other.dependent === arc.dependent;
    else if (left(other) <= arc.dependent && arc.dependent <= right(other)) over = Math.max(over, heights[i]);
  });
  return over + 0.9 + 0.6 * earlier;
}

const decimal = (value) => String(Number(value.toFixed(2)));

function curve(arc, start, end, base, peak) {
  const foot = base - geometry.arrow;
  if (arc.head === 0) return `M${decimal(end)} ${decimal(peak)}V${decimal(foot)}`;
  const bend = (end > start ? 1 : -1) * Math.min(Math.abs(end - start) / 2, 26);
  const height = base - peak;
  const points = [
    ["M", start, base],
    ["C", start, base - 0.5523 * height], [" ", start + 0.4477 * bend, peak], [" ", start + bend, peak],
  ];
  const down = [["C", end - 0.4477 * bend, peak], [" ", end, foot - 0.5523 * (foot - peak)], [" ", end, foot]];
  const write = ([letter, x, y]) => `${letter}${decimal(x)} ${decimal(y)}`;
  return `${points.map(write).join("")}H${decimal(end - bend)}${down.map(write).join("")}`;
}

function tip(end, base) {
  const foot = decimal(base - geometry.arrow);
  return `M${decimal(end)} ${decimal(base)}L${decimal(end - 3.5)} ${foot}L${decimal(end + 3.5)} ${foot}Z`;
}

/** Places of words and arcs in the picture. */
function layout(sentence, arcs) {
  const count = sentence.words.length;
  const heights = levels(arcs, count);
  const at = ends(arcs, heights, count);
  const widths = sentence.widths.map((width, i) => Math.max(width, geometry.slot * at[i].length + 10, geometry.cell));
  const centres = [];
  let x = geometry.margin;
  for (const width of widths) {
    centres.push(x + width / 2);
    x += width;
  }
  const total = Math.max(x + geometry.margin, 2 * geometry.margin + 40);
  const mirror = (value) => (sentence.rightToLeft ? total - value : value);
  const rises = arcs.map((_, index) => rise(arcs, heights, index));
  const base = 6 + geometry.step * rises.reduce((a, b) => Math.max(a, b), 0) + 22;
  const place = (word, index) => {
    const order = at[word - 1].indexOf(index) - (at[word - 1].length - 1) / 2;
    return mirror(centres[word - 1] + geometry.slot * order);
  };
  const lines = sentence.spans.reduce((most, span) => Math.max(most, span[3] + 1), 0);
  const below = base + geometry.bar * lines; // of which the notes hang
  const rows = sentence.notes.reduce((most, texts) => Math.max(most, texts.length), 0);
  const height = below + 30 + geometry.noteStep * rows;
  return { heights, widths, centres: centres.map(mirror), total, rises, base, below, place, height };
}
