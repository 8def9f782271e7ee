// What the reader does: pointing at words, sliders, keys, and going from sentence to sentence.

const sources = [...document.querySelectorAll("script.sentence")];

const wordElement = (word) => byId("tree").querySelector(`[data-word="${word}"]`);

/** Highlight a word's arcs and say its probabilities; null: no word. */
function point(word) {
  state.word = word;
  const svg = byId("tree").firstElementChild;
  svg.classList.toggle("pointing", word !== null);
  const linked = new Set();
  for (const part of svg.querySelectorAll("[data-dependent]")) {
    const pair = [Number(part.dataset.dependent), Number(part.dataset.head)];
    part.classList.toggle("near", pair.includes(word));
    if (pair.includes(word)) pair.forEach((one) => linked.add(one));
  }
  for (const part of svg.querySelectorAll(".word")) {
    const number = Number(part.dataset.word);
    part.classList.toggle("here", number === word);
    part.classList.toggle("linked", number !== word && linked.has(number));
    part.setAttribute("tabindex", number === (word ?? 1) ? 0 : -1);
  }
  const band = byId("band");
  if (band !== null) {
    const { size, border } = band.ownerSVGElement.dataset;
    band.setAttribute("visibility", word === null ? "hidden" : "visible");
    if (word !== null) band.setAttribute("y", Number(border) + (word - 1) * Number(size));
  }
  byId("detail").textContent = word === null ? "Point at a word, or go to one with Tab and the arrow keys." : described(word);
}

function described(word) {
  const { sentence, iteration, channel } = state;
  const heads = sentence.heads[iteration][channel];
  const withNumber = (head) => [named(head), written(percent(word, head))].join(" ").trim();
  const others = Array.from({ length: sentence.words.length + 1 }, (_, head) => head)
    .filter((head) => head !== heads[word - 1] && !(state.gold && head === sentence.gold[word - 1]))
    .filter((head) => head !== word && percent(word, head) >= 1)
    .sort((a, b) => percent(word, b) - percent(word, a))
    .slice(0, 4);
  const dependents = heads.flatMap((head, i) => (head === word ? [named(i + 1)] : []));
  const own = [named(heads[word - 1]), withSpread(percent(word, heads[word - 1]), word)].join(" ").trim();
  const parts = [`${named(word)}: head ${own}`];
  if (state.gold) parts.push(`gold head ${withNumber(sentence.gold[word - 1])}`);
  if (others.length > 0) parts.push(`other heads ${others.map(withNumber).join(", ")}`);
  parts.push(dependents.length > 0 ? `head of ${dependents.join(", ")}` : "head of no word");
  return `${parts.join("; ")}.`;
}

// --- controls ---

function draw() {
  const { sentence } = state;
  const [iteration, channel] = [byId("iteration"), byId("channel")];
  iteration.max = sentence.heads.length - 1;
  channel.max = sentence.heads[0].length - 1;
  iteration.value = state.iteration;
  channel.value = state.channel;
  byId("threshold").value = state.threshold;
  byId("gold").disabled = sentence.gold === null;
  byId("gold").checked = state.gold;
  const mine = (isChosen) => (isChosen ? " ★" : "");
  const iterationName = `${state.iteration + 1} of ${sentence.heads.length}`;
  byId("iteration-name").textContent = iterationName + mine(state.iteration === sentence.iteration);
  byId("channel-name").textContent = channelName(state.channel) + mine(state.channel === sentence.channel);
  byId("threshold-name").textContent = (state.threshold / 100).toFixed(2);
  iteration.setAttribute("aria-valuetext", iterationName);
  channel.setAttribute("aria-valuetext", channelName(state.channel) === "mean" ? "mean of the channels" : `channel ${channelName(state.channel)}`);
  byId("threshold").setAttribute("aria-valuetext", (state.threshold / 100).toFixed(2));
  drawTree();
  drawHeat();
}

const clamped = (value, most) => Math.max(0, Math.min(most, value));

function choose() {
  state.iteration = state.sentence.iteration;
  state.channel = state.sentence.channel;
  draw();
}

async function show(index) {
  const before = state.sentence;
  const sentence = JSON.parse(sources[index].textContent);
  const gold = state.wantsGold && sentence.gold !== null;
  Object.assign(state, { index, sentence, marginals: null, word: null, tallest: 0, gold });
  const alike = before !== null && before.heads.length === sentence.heads.length && before.heads[0].length === sentence.heads[0].length;
  if (!alike) Object.assign(state, { iteration: sentence.iteration, channel: sentence.channel });
  for (const item of byId("sentences").children) {
    const here = Number(item.dataset.index) === index;
    item.setAttribute("aria-selected", here);
    item.tabIndex = here ? 0 : -1;
    if (here) item.scrollIntoView({ block: "nearest" });
  }
  byId("sentence-title").textContent = `Sentence ${index + 1}${sentence.title === "" ? "" : `: ${sentence.title}`}`;
  byId("tree").dir = byId("heat").dir = sentence.rightToLeft ? "rtl" : "ltr";
  draw();
  if (sentence.marginals === null) return;
  const marginals = await inflated(sentence.marginals);
  if (state.sentence !== sentence) return; // another one was chosen meanwhile
  state.marginals = marginals;
  if (marginals === null) byId("heat-note").textContent = "This browser cannot read the compressed numbers.";
  else draw();
}

const KEYS = {
  n: () => show(clamped(state.index + 1, sources.length - 1)),
  p: () => show(clamped(state.index - 1, sources.length - 1)),
  i: () => change("iteration", 1), I: () => change("iteration", -1),
  c: () => change("channel", 1), C: () => change("channel", -1),
  t: () => change("threshold", 5), T: () => change("threshold", -5),
  g: () => byId("gold").click(),
  f: () => byId("fit").click(),
  m: choose,
  Escape: () => point(null),
};

function change(name, by) {
  state[name] = clamped(state[name] + by, Number(byId(name).max));
  draw();
}

function onListKey(event) {
  const last = sources.length - 1;
  const target = { ArrowDown: state.index + 1, ArrowUp: state.index - 1, Home: 0, End: last }[event.key];
  if (target === undefined) return;
  event.preventDefault();
  show(clamped(target, last));
  byId("sentences").children[state.index].focus();
}

function onTreeKey(event) {
  const count = state.sentence.words.length;
  const onward = state.sentence.rightToLeft ? -1 : 1;
  const here = state.word ?? 1;
  const target = { ArrowRight: here + onward, ArrowLeft: here - onward, Home: 1, End: count }[event.key];
  if (target === undefined) return;
  event.preventDefault();
  wordElement(Math.max(1, Math.min(count, target))).focus();
}

function wordOf(event) {
  const at = event.target.closest("[data-word]");
  return at === null ? null : Number(at.dataset.word);
}

function start() {
  byId("main").hidden = false;
  byId("count").textContent = sources.length === 1 ? "1 sentence" : `${sources.length} sentences`;
  if (sources.length === 0) {
    byId("view").hidden = true;
    return;
  }
  byId("sentences").append(...sources.map((source, index) => {
    const words = JSON.parse(source.textContent).words;
    const item = document.createElement("li");
    const number = document.createElement("span");
    const text = document.createElement("bdi");
    number.className = "number";
    number.textContent = index + 1;
    text.textContent = words.length === 0 ? "(empty sentence)" : words.slice(0, 30).join(" ");
    item.append(number, " ", text);
    item.setAttribute("role", "option");
    item.dataset.index = index;
    return item;
  }));
  byId("sentences").addEventListener("click", (event) => {
    const item = event.target.closest("li");
    if (item !== null) show(Number(item.dataset.index));
  });
  byId("sentences").addEventListener("keydown", onListKey);
  for (const name of ["iteration", "channel", "threshold"]) {
    byId(name).addEventListener("input", (event) => {
      state[name] = Number(event.target.value);
      draw();
    });
  }
  byId("gold").addEventListener("change", (event) => {
    state.gold = state.wantsGold = event.target.checked;
    draw();
  });
  byId("fit").addEventListener("change", (event) => byId("tree").classList.toggle("fit", event.target.checked));
  byId("chosen").addEventListener("click", choose);
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("tree").addEventListener("keydown", onTreeKey);
  byId("tree").addEventListener("focusin", (event) => point(wordOf(event)));
  for (const name of ["tree", "heat"]) {
    byId(name).addEventListener("mouseover", (event) => wordOf(event) !== null && point(wordOf(event)));
    byId(name).addEventListener("mouseleave", () => byId("tree").contains(document.activeElement) || point(null));
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || !Object.hasOwn(KEYS, event.key)) return;
    KEYS[event.key]();
  });
  show(0);
}

start();
