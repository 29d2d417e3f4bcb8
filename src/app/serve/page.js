"use strict";
// Reads the API every two seconds, and draws. Texts are set as text, never as HTML: they come from data.

const SVG = "http://www.w3.org/2000/svg";
const COLOURS = ["#1f6feb", "#1a7f4b", "#a86500", "#8250df", "#c0352b", "#0a7ea4", "#7a6f00", "#bf3989"];
const PAUSE = 2000;
const TIME = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;
// Without a name and password, which the address of the page may have: requests refuse them.
const HERE = location.origin + location.pathname;
let chosen = decodeURIComponent(location.hash.slice(1)) || null;
let graph = null;
let standing = null;

const at = (id) => document.getElementById(id);

function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made[key] = value;
  made.append(...children);
  return made;
}

function draw(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// A number as the API has written it: JavaScript would round whole numbers beyond 2^53.
class Exact {
  constructor(text) { this.text = text; }
  toString() { return this.text.replace(/^-?\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ",")); }
}

// Texts (but for keys) and numbers become texts that begin with a letter which tells them apart.
const TOKENS = /"([^"\\]*(?:\\.[^"\\]*)*"\s*)(:?)|-?\d[\d.eE+-]*/g;

function parseExactly(json) {
  const marked = json.replace(TOKENS, (token, text, colon) =>
    (text === undefined ? `"n${token}"` : colon ? token : `"s${text}`));
  return JSON.parse(marked, (_, value) => {
    if (typeof value !== "string") return value;
    return value[0] === "n" ? new Exact(value.slice(1)) : value.slice(1);
  });
}

const isNumber = (value) => typeof value === "number" || value instanceof Exact;

// A nested value as JSON, with its numbers as they are.
function written(value) {
  if (value instanceof Exact) return value.text;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(written).join(",")}]`;
  return `{${Object.entries(value).map(([key, each]) => `${JSON.stringify(key)}:${written(each)}`).join(",")}}`;
}

async function get(path, parse = JSON.parse) {
  const answer = await fetch(new URL(path, HERE));
  const found = parse(await answer.text());
  if (!answer.ok) throw new Error(found.error || `${path}: ${answer.status}`);
  return found;
}

function cell(value, kind = "") {
  if (value === null || value === undefined) return make("td", { className: "null" }, "–");
  if (typeof value === "number") value = new Exact(String(value));
  if (value instanceof Exact) return make("td", { className: `number ${kind}` }, String(value));
  const text = typeof value === "object" ? written(value) : String(value);
  return make("td", { className: TIME.test(text) ? `time ${kind}` : kind }, text);
}

function table(columns, rows, kinds = {}) {
  if (!rows.length) return make("p", { className: "empty" }, "none");
  const numbers = columns.map((_, at) => rows.some((row) => isNumber(row[at])));
  const head = columns.map((name, at) => make("th", { className: numbers[at] ? "number" : "" }, name));
  const body = rows.map((row) => make("tr", {}, ...row.map((value, at) =>
    value instanceof Node ? make("td", {}, value) : cell(value, kinds[columns[at]] || ""))));
  return make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body));
}

function choose(name) {
  chosen = name;
  at("ask").reset();
  at("view").replaceChildren();
  at("rows").replaceChildren();
  document.activeElement?.blur();
  refresh();
}

const go = (name) => { location.hash = encodeURIComponent(name); };

function pipelinesTable(status) {
  const columns = ["pipeline", "service", "epoch", "published", "watermark", "waiting", "dead_letters",
    "expected_latency", "measured_latency", "bookkeeping", "alarms", "engine"];
  const shown = columns.filter((name) => status.pipelines.some((each) => (each[name] ?? null) !== null));
  const rows = status.pipelines.map((each) => shown.map((name) => name === "pipeline"
    ? make("button", { className: "name", onclick: () => go(each.pipeline) }, each.pipeline)
    : each[name]));
  return table(shown.map((name) => name.replaceAll("_", " ")), rows, { alarms: "alarm", waiting: "time" });
}

// Nodes stand in columns: a node is one column to the right of the last one that it reads.
function flow(found, status) {
  const depth = {};
  const depthOf = (id) => depth[id] ??= Math.max(0, ...found.edges.filter((edge) => edge.to === id)
    .map((edge) => depthOf(edge.from) + 1));
  found.nodes.forEach((node) => depthOf(node.id));
  const columns = [];
  found.nodes.forEach((node) => (columns[depth[node.id]] ??= []).push(node));
  const [width, height, gap] = [190, 52, 70];
  const place = {};
  columns.forEach((nodes, x) => nodes.forEach((node, y) => {
    place[node.id] = { x: 8 + x * (width + gap), y: 8 + y * (height + 18) };
  }));
  const tallest = Math.max(1, ...columns.map((nodes) => nodes.length));
  const size = { width: 16 + columns.length * (width + gap) - gap, height: 16 + tallest * (height + 18) - 18 };
  const picture = draw("svg", { viewBox: `0 0 ${size.width} ${size.height}`, role: "img", "aria-label": "flow" });
  picture.style.maxWidth = `${size.width}px`;
  for (const edge of found.edges) {
    const [from, to] = [place[edge.from], place[edge.to]];
    const [x1, y1, x2, y2] = [from.x + width, from.y + height / 2, to.x, to.y + height / 2];
    picture.append(draw("path", { class: "edge", d: `M${x1} ${y1} C${x1 + 35} ${y1} ${x2 - 35} ${y2} ${x2} ${y2}` }));
  }
  const known = Object.fromEntries(status.pipelines.map((each) => [each.pipeline, each]));
  for (const node of found.nodes) {
    const { x, y } = place[node.id];
    const now = node.kind === "pipeline" ? known[node.label] : null;
    const below = now ? `${node.service} · epoch ${now.epoch ?? "–"}` : node.kind === "sink" ? "topic" : "source";
    const group = draw("g", {},
      draw("rect", { class: `box ${node.kind} ${now?.alarms ? "trouble" : ""}`, x, y, width, height, rx: 7 }),
      text(x + 10, y + 21, shorten(node.label, 24), "name"), text(x + 10, y + 40, shorten(below, 30)));
    group.append(draw("title", {}, node.views ? `views: ${node.views.join(", ")}` : node.label));
    if (now) {
      const link = draw("a", {}, group);
      link.addEventListener("click", () => go(node.label));
      picture.append(link);
    } else picture.append(group);
  }
  return picture;
}

const shorten = (word, most) => (word.length > most ? `${word.slice(0, most - 1)}…` : word);

function text(x, y, words, kind = "", anchor = "start") {
  return draw("text", { x, y, class: kind, "text-anchor": anchor }, words);
}

const BOX = { width: 560, height: 190, left: 54, bottom: 22, top: 8 };

function frame(highest, first, last) {
  const picture = draw("svg", { viewBox: `0 0 ${BOX.width} ${BOX.height}`, role: "img" });
  const floor = BOX.height - BOX.bottom;
  for (const share of [0, 0.5, 1]) {
    const y = floor - share * (floor - BOX.top);
    picture.append(draw("line", { class: "axis", x1: BOX.left, x2: BOX.width, y1: y, y2: y }));
    picture.append(text(BOX.left - 6, y + 4, short(highest * share), "", "end"));
  }
  picture.append(text(BOX.left, BOX.height - 5, first), text(BOX.width, BOX.height - 5, last, "", "end"));
  return picture;
}

function short(number) {
  if (number >= 1e6) return `${+(number / 1e6).toPrecision(3)} M`;
  if (number >= 1e4) return `${+(number / 1e3).toPrecision(3)} k`;
  return String(+number.toPrecision(3));
}

// Bars of one epoch each; a bar is a stack of named parts.
function bars(epochs, partsOf) {
  if (!epochs.length) return make("p", { className: "empty" }, "no epoch yet");
  const stacks = epochs.map(partsOf);
  const sums = stacks.map((parts) => parts.reduce((sum, part) => sum + part.value, 0));
  const highest = Math.max(...sums, 1e-3);
  const picture = frame(highest, `epoch ${epochs[0].epoch}`, `epoch ${epochs.at(-1).epoch}`);
  const [floor, step] = [BOX.height - BOX.bottom, (BOX.width - BOX.left) / epochs.length];
  stacks.forEach((parts, index) => {
    let y = floor;
    for (const part of parts) {
      const tall = (part.value / highest) * (floor - BOX.top);
      y -= tall;
      const bar = draw("rect", { x: BOX.left + index * step + 0.5, y, width: Math.max(step - 1, 0.7), height: tall,
        fill: part.colour });
      bar.append(draw("title", {}, `epoch ${epochs[index].epoch}: ${part.name} ${part.shown ?? short(part.value)}`));
      picture.append(bar);
    }
  });
  return picture;
}

function showKey(id, colours) {
  at(id).replaceChildren(...colours.map(([name, colour]) => {
    const key = make("span", { className: "key" }, `■ ${name}`);
    key.style.color = colour;
    return key;
  }));
}

function secondsChart(epochs) {
  const names = [...new Set(epochs.flatMap((each) => Object.keys(each.phases)))];
  const colourOf = (name) => COLOURS[names.indexOf(name) % COLOURS.length];
  showKey("phases-key", names.map((name) => [name, colourOf(name)]));
  return bars(epochs, (each) => {
    const phases = Object.entries(each.phases);
    if (!phases.length) return [{ name: "seconds", value: each.seconds ?? 0, colour: COLOURS[0] }];
    return phases.map(([name, value]) => ({ name, value, colour: colourOf(name) }));
  });
}

function rowsChart(epochs) {
  showKey("rows-key", [["rows", COLOURS[1]], ["dead letters", COLOURS[4]]]);
  return bars(epochs, (each) => [
    { name: "rows", value: (each.rows ?? 0) - (each.dead_letters ?? 0), colour: COLOURS[1] },
    { name: "dead letters", value: each.dead_letters ?? 0, colour: COLOURS[4] },
  ]);
}

function curves(found) {
  const lines = Object.entries(found.lines);
  const values = lines.flatMap(([, line]) => line.filter((value) => value !== null));
  if (!values.length) return make("p", { className: "empty" }, "no tick yet");
  const clock = (time) => new Date(time).toLocaleString("en-GB", { timeZone: found.zone, hour: "2-digit", minute: "2-digit" });
  const highest = Math.max(...values, 1e-9);
  const picture = frame(highest, clock(found.steps[0]), clock(found.steps.at(-1)));
  const floor = BOX.height - BOX.bottom;
  const x = (index) => BOX.left + (index / Math.max(found.steps.length - 1, 1)) * (BOX.width - BOX.left);
  lines.forEach(([name, line], index) => {
    const points = line.flatMap((value, step) => value === null ? []
      : [`${x(step).toFixed(1)},${(floor - (value / highest) * (floor - BOX.top)).toFixed(1)}`]);
    const drawn = draw("polyline", { points: points.join(" "), fill: "none", stroke: COLOURS[index % COLOURS.length],
      "stroke-width": 1.6 });
    drawn.append(draw("title", {}, name));
    picture.append(drawn, text(BOX.left + 8, BOX.top + 14 * (index + 1), name));
    picture.lastChild.style.fill = COLOURS[index % COLOURS.length];
  });
  return picture;
}

async function showCurve(name) {
  const node = standing.pipelines.find((each) => each.pipeline === name);
  at("curve-block").hidden = node.service !== "cumulate";
  if (node.service !== "cumulate") return;
  const found = await get(`api/curves/${encodeURIComponent(name)}`);
  at("curve-title").textContent = `${found.measure} · ${found.title} · ${found.zone}`;
  at("curve").replaceChildren(curves(found));
}

async function readView() {
  const asked = new URLSearchParams({ limit: at("limit").value || 20 });
  if (at("at").value) asked.set("at", at("at").value);
  if (at("as-of").value) asked.set("as_of", at("as-of").value);
  try {
    const found = await get(`api/views/${encodeURIComponent(at("view").value)}?${asked}`, parseExactly);
    at("rows").replaceChildren(table(found.columns, found.rows));
  } catch (error) {
    at("rows").replaceChildren(make("p", { className: "error" }, error.message));
  }
}

async function showDetail(name) {
  const path = `api/pipelines/${encodeURIComponent(name)}`;
  const node = graph.nodes.find((each) => each.id === `pipeline:${name}`);
  at("detail").hidden = !node;
  if (!node) return;
  at("detail-title").textContent = name;
  if (!at("view").options.length) {
    at("view").replaceChildren(...node.views.map((view) => make("option", { value: `${name}.${view}` }, view)));
  }
  const [epochs, versions, letters] = await Promise.all(
    [get(`${path}/epochs?count=120`), get(`${path}/versions?count=15`), get(`${path}/dead-letters`, parseExactly)]);
  if (name !== chosen) return;
  at("rows-chart").replaceChildren(rowsChart(epochs));
  at("seconds-chart").replaceChildren(secondsChart(epochs));
  const columns = ["epoch", "label", "published", "superseded", "readable", "leases"];
  at("versions").replaceChildren(table(columns, versions.map((each) =>
    columns.map((key) => (key === "leases" ? each.leases.join(", ") : each[key])))));
  const samples = ["epoch", "reason", "origin", "raw"].filter((key) => letters.columns.includes(key));
  at("letters").replaceChildren(
    table(["reason", "count"], letters.reasons.map((each) => [each.reason, each.count])),
    ...(letters.rows.length ? [make("h3", {}, "The newest")] : []),
    ...(letters.rows.length ? [table(samples, letters.rows.map((row) =>
      samples.map((key) => row[letters.columns.indexOf(key)])), { raw: "raw" })] : []));
  await showCurve(name);
  if (!at("at").value && document.activeElement?.form !== at("ask")) await readView();
}

async function refresh() {
  try {
    [standing, graph] = await Promise.all([get("api/status"), graph || get("api/graph")]);
    at("about").textContent = `${standing.pipelines.length} pipelines on ${standing.backend}, as of ${standing.time}`;
    at("pipelines").replaceChildren(pipelinesTable(standing));
    at("flow").replaceChildren(flow(graph, standing));
    chosen ??= standing.pipelines[0]?.pipeline;
    if (chosen) await showDetail(chosen);
    at("trouble").hidden = true;
  } catch (error) {
    at("trouble").textContent = error.message;
    at("trouble").hidden = false;
  }
}

async function run() {
  await refresh();
  setTimeout(run, PAUSE);
}

at("ask").addEventListener("submit", (event) => { event.preventDefault(); readView(); });
window.addEventListener("hashchange", () => choose(decodeURIComponent(location.hash.slice(1))));
run();
