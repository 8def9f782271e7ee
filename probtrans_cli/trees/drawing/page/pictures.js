// The tree, its legend and the heat map of the state. Words are written with textContent alone.

const state = {
  index: 0, sentence: null, marginals: null, iteration: 0, channel: 0, threshold: 0, word: null,
  gold: false, wantsGold: false, tallest: 0,
};

/** Probability in percent of node `head` (0 = root) as the head of a word, as far as it is known. */
function percent(word, head) {
  const { sentence, marginals, iteration, channel } = state;
  if (sentence.heads[iteration][channel][word - 1] === head) {
    const known = sentence.percent[iteration][channel][word - 1];
    return known < 0 ? null : known;
  }
  const count = sentence.words.length;
  const column = head === 0 ? count : head - 1;
  if (marginals === null || column >= sentence.columns) return null;
  const row = (iteration * sentence.heads[0].length + channel) * count + word - 1;
  return marginals[row * sentence.columns + column];
}

/** Standard deviation, in percent, of the probability of a word's own arc over draws of the weights; null: not known. */
function spread(word) {
  const { sentence, iteration, channel } = state;
  const known = sentence.spread === null ? -1 : sentence.spread[iteration][channel][word - 1];
  return known < 0 ? null : known;
}

/** A probability, and of an arc of the tree its standard deviation. */
function withSpread(value, word) {
  const of = word === null ? null : spread(word);
  return value === null || of === null ? written(value) : `${written(value)}±${written(of)}`;
}

function written(value) {
  if (value === null) return "";
  return value >= 100 ? "1.0" : `.${String(value).padStart(2, "0")}`;
}

function currentArcs() {
  const { sentence, iteration, channel } = state;
  const arcs = sentence.heads[iteration][channel].map((head, i) => ({ dependent: i + 1, head, kind: "plain" }));
  if (state.gold) {
    for (const arc of [...arcs]) {
      const gold = sentence.gold[arc.dependent - 1];
      arc.kind = arc.head === gold ? "right" : "wrong";
      if (arc.head !== gold) arcs.push({ dependent: arc.dependent, head: gold, kind: "missed" });
    }
  }
  for (const arc of arcs) arc.percent = percent(arc.dependent, arc.head);
  return arcs;
}

/** Whether an arc is drawn; what the threshold hides keeps its place, so that nothing jumps. */
const shown = (arc) => arc.kind === "missed" || arc.percent === null || arc.percent >= state.threshold;

function element(name, attributes = {}, text = null) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

function named(word) {
  return word === 0 ? "the root" : `${state.sentence.words[word - 1]} (${word})`;
}

function channelName(channel) {
  return channel === state.sentence.heads[0].length - 1 ? "mean" : String(channel);
}

function arcClass(arc) {
  if (arc.kind !== "plain") return `arc ${arc.kind}`;
  const name = channelName(state.channel);
  return `arc channel-${name === "mean" ? name : name % geometry.colours}`;
}

function drawTree() {
  const { sentence } = state;
  const arcs = currentArcs();
  const places = layout(sentence, arcs);
  const hadFocus = byId("tree").contains(document.activeElement);
  const svg = element("svg", {
    width: places.total, height: places.height, viewBox: `0 0 ${places.total} ${places.height}`, role: "group",
    "aria-label": "Tree: the arrow keys go from word to word",
  });
  const lines = element("g", { "aria-hidden": "true" });
  const labels = element("g", { "aria-hidden": "true" });
  const order = arcs.map((_, index) => index).sort((i, j) => places.heights[j] - places.heights[i] || i - j);
  for (const index of order.filter((i) => shown(arcs[i]))) {
    const arc = arcs[index];
    const end = places.place(arc.dependent, index);
    const start = arc.head === 0 ? end : places.place(arc.head, index);
    const peak = places.base - geometry.step * places.rises[index];
    const strength = arc.percent === null || arc.kind !== "plain" ? 1 : 0.3 + 0.7 * (arc.percent / 100);
    const group = element("g", { class: arcClass(arc), opacity: decimal(strength) });
    group.append(element("path", { class: "line", d: curve(arc, start, end, places.base, peak) }));
    group.append(element("path", { class: "tip", d: tip(end, places.base) }));
    const probability = withSpread(arc.percent, arc.kind === "missed" ? null : arc.dependent);
    const text = `${arc.head === 0 ? "root " : ""}${probability}`.trim();
    const label = text === "" ? null : drawLabel((start + end) / 2, peak - 4, text);
    for (const part of [group, label]) {
      if (part === null) continue;
      part.dataset.dependent = arc.dependent;
      part.dataset.head = arc.head;
    }
    lines.append(group);
    if (label !== null) labels.append(label);
  }
  svg.append(lines, labels, ...sentence.words.map((_, i) => drawWord(i + 1, places, arcs)));
  svg.append(...sentence.spans.map((span) => drawSpan(span, places)));
  byId("tree").replaceChildren(svg);
  state.tallest = Math.max(state.tallest, places.height); // so that the words stay where they are
  byId("tree").style.setProperty("--tallest", `${state.tallest}px`);
  drawLegend(arcs);
  point(state.word);
  if (hadFocus && state.word !== null) wordElement(state.word).focus();
}

function drawLabel(x, y, text) {
  const width = text.length * geometry.label * 0.62 + 4;
  const group = element("g", { class: "label" });
  group.append(element("rect", { class: "plate", x: decimal(x - width / 2), y: decimal(y - 8.5), width: decimal(width), height: 10 }));
  group.append(element("text", { x: decimal(x), y: decimal(y), "font-size": geometry.label, "text-anchor": "middle" }, text));
  return group;
}

/** A bar below some words, with what they are. */
function drawSpan([first, last, name, line, kind], places) {
  const edges = [first, last].flatMap((word) => [-1, 1].map((side) => places.centres[word - 1] + side * (places.widths[word - 1] / 2 - 4)));
  const [start, end] = [Math.min(...edges), Math.max(...edges)];
  const top = places.base + 27 + geometry.bar * line;
  const group = element("g", {
    class: kind === "" ? "span" : `span ${kind}`, role: "img",
    "aria-label": `${name}: ${named(first)} to ${named(last)}${line > 0 ? `, line ${line + 1}` : ""}`,
  });
  group.append(element("rect", { x: decimal(start), y: decimal(top), width: decimal(end - start), height: 14, rx: 3 }));
  group.append(element("text", { x: decimal((start + end) / 2), y: decimal(top + 10.5), "font-size": geometry.label, "text-anchor": "middle" }, name));
  return group;
}

function drawWord(word, places, arcs) {
  const { sentence } = state;
  const arc = arcs[word - 1];
  const probability = arc.percent === null ? "" : `, probability ${withSpread(arc.percent, word)}`;
  const gold = arc.kind === "wrong" ? `, gold head ${named(sentence.gold[word - 1])}` : "";
  const notes = sentence.notes[word - 1] ?? [];
  const group = element("g", {
    class: "word", role: "img", tabindex: word === (state.word ?? 1) ? 0 : -1, "data-word": word,
    "aria-label": `${named(word)}, head ${named(arc.head)}${probability}${gold}${notes.map((text) => `, ${text}`).join("")}`,
  });
  const width = places.widths[word - 1];
  const x = places.centres[word - 1];
  group.append(element("rect", { class: "box", x: decimal(x - width / 2 + 2), y: decimal(places.base + 1), width: decimal(width - 4), height: 25 }));
  group.append(element("text", { x: decimal(x), y: decimal(places.base + 18), "font-size": geometry.word, "text-anchor": "middle" }, sentence.words[word - 1]));
  notes.forEach((text, row) => group.append(element("text", {
    class: "note", x: decimal(x), y: decimal(places.below + 22 + geometry.noteStep * (row + 1)), "font-size": geometry.label, "text-anchor": "middle",
  }, text)));
  return group;
}

function drawLegend(arcs) {
  const entries = [];
  const say = (text) => {
    const entry = document.createElement("span");
    entry.append(text);
    entries.push(entry);
    return entry;
  };
  const sample = (kind, text) => {
    const svg = element("svg", { width: 34, height: 8, "aria-hidden": "true" });
    const group = element("g", { class: `arc ${kind}` });
    group.append(element("path", { class: "line", d: "M0 4H34" }));
    svg.append(group);
    say(text).prepend(svg);
  };
  if (state.gold) {
    const correct = arcs.filter((arc) => arc.kind === "right").length;
    sample("right", "right: solid");
    sample("wrong", "wrong: dashed");
    sample("missed", "gold and missed: dotted");
    say(`${correct} of ${state.sentence.words.length} heads are right`);
  } else {
    say("An arrow points from the head to its dependent; the fainter, the less probable.");
  }
  if (state.sentence.spread !== null) say("After ±: the standard deviation over draws of the weights.");
  const hidden = arcs.filter((arc) => !shown(arc)).length;
  if (hidden > 0) say(`${hidden} hidden below ${written(state.threshold)}`);
  byId("legend").replaceChildren(...entries);
}

// --- heat map ---

function drawHeat() {
  const { sentence, marginals, iteration, channel } = state;
  const count = sentence.words.length;
  byId("heat").replaceChildren();
  if (marginals === null || count === 0) {
    byId("heat-note").textContent = count === 0 ? "No words." : sentence.marginals === null
      ? "Left out, as the sentence is long." : "Reading…";
    return;
  }
  byId("heat-note").textContent =
    "A row for each word, a column for each head; the stronger its colour, the more probable. Framed: the head in the tree" +
    (state.gold ? "; circled: the gold head." : ".");
  const hasRoot = sentence.columns > count;
  const size = Math.max(7, Math.min(20, Math.floor(640 / count)));
  const font = Math.min(12, size - 1);
  const longest = Math.max(...sentence.words.map((word, i) => (sentence.widths[i] - 16) * (font / geometry.word)));
  const border = Math.max(longest, 4 * font * 0.6) + 10;
  const columns = count + hasRoot;
  const total = border + columns * size + 4;
  const height = border + count * size + 4;
  const side = (x, width = 0) => decimal(sentence.rightToLeft ? total - x - width : x);
  const columnOf = (head) => (head === 0 ? 0 : head - 1 + hasRoot);
  const svg = element("svg", { width: total, height, viewBox: `0 0 ${total} ${height}`, role: "img",
    "aria-label": "Heat map of the probability of every head; the text below the tree has a word's numbers" });
  const cells = element("g", { class: "cells" });
  const heads = element("g");
  svg.append(element("rect", { class: "band", id: "band", x: 0, y: 0, width: total, height: size, visibility: "hidden" }), cells);
  svg.append(element("rect", { class: "grid", x: side(border, columns * size), y: border, width: columns * size, height: count * size }));
  const caption = (head) => (head === 0 ? "root" : sentence.words[head - 1]);
  for (let word = 1; word <= count; word++) {
    const y = border + (word - 1) * size;
    const anchor = sentence.rightToLeft ? "start" : "end";
    svg.append(element("text", { x: side(border - 5), y: decimal(y + size / 2 + font * 0.36), "font-size": font, "text-anchor": anchor }, caption(word)));
    const frame = { y: y + 0.5, width: size - 1, height: size - 1 };
    for (let head = hasRoot ? 0 : 1; head <= count; head++) {
      const value = percent(word, head);
      if (!value) continue;
      const x = side(border + columnOf(head) * size, size);
      const cell = element("rect", { x, y, width: size, height: size, "fill-opacity": value / 100, "data-word": word });
      cell.append(element("title", {}, `${named(word)} from ${named(head)}: ${written(value)}`));
      cells.append(cell);
    }
    const head = sentence.heads[iteration][channel][word - 1];
    if (head > 0 || hasRoot) heads.append(element("rect", { class: "head", x: Number(side(border + columnOf(head) * size, size)) + 0.5, ...frame }));
    const gold = state.gold ? sentence.gold[word - 1] : -1;
    if (gold > 0 || (gold === 0 && hasRoot)) {
      const x = Number(side(border + columnOf(gold) * size, size)) + size / 2;
      heads.append(element("circle", { class: "gold", cx: decimal(x), cy: y + size / 2, r: Math.max(2, size / 2 - 3) }));
    }
  }
  for (let head = hasRoot ? 0 : 1; head <= count; head++) {
    const x = Number(side(border + (columnOf(head) + 0.5) * size)) + font * 0.36;
    svg.append(element("text", { transform: `translate(${decimal(x)} ${decimal(border - 5)}) rotate(-90)`, "font-size": font }, caption(head)));
  }
  svg.append(heads);
  svg.dataset.size = size;
  svg.dataset.border = border;
  byId("heat").append(svg);
  point(state.word);
}

/** The marginals of a sentence, one byte a percent; null where the browser cannot inflate them. */
async function inflated(text) {
  if (typeof DecompressionStream === "undefined") return null;
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
