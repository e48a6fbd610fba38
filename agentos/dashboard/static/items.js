// The table of items: sorted, filtered, searched, by mouse and by keyboard; 2,000 of them scroll smoothly.

import { itemHash } from "./acts.js";
import { button, h, icon, setAttribute, setChildren, setClass, setText } from "./dom.js";
import { clock, count, duration, money, plural } from "./format.js";
import { VirtualList } from "./virtual-list.js";
import { markClass, pressed } from "./widgets.js";

const FILTERS = [
  { name: "all", label: "All", has: () => true },
  { name: "running", label: "Under way", has: (item) => item.state === "running" || item.state === "waiting" },
  { name: "needs", label: "Need you", has: (item) => item.needs },
  { name: "bad", label: "Failed", has: (item) => item.kind === "bad" },
  { name: "good", label: "Done", has: (item) => item.state === "ended" && item.kind === "good" },
  { name: "left", label: "Left to do", has: (item) => item.state === "pending" || item.outcome === "interrupted" },
];

const COLUMNS = [
  { name: "id", label: "Item", value: (item) => item.place },
  { name: "stage", label: "Stage", value: (item) => stageOf(item) },
  { name: "now", label: "Now", value: (item) => `${ORDER[item.state]} ${item.words}` },
  { name: "time", label: "Time", value: (item, now) => elapsedOf(item, now) ?? -1, isNumber: true },
  { name: "attempt", label: "Try", value: (item) => item.attempt, isNumber: true },
  { name: "tokens", label: "Tokens", value: (item) => item.input_tokens + item.output_tokens, isNumber: true },
  { name: "cost", label: "Cost", value: (item) => item.cost_usd, isNumber: true },
  { name: "last", label: "Last line" },
  { name: "branch", label: "Branch", value: (item) => item.branch?.name ?? "" },
];

const ORDER = { running: 0, waiting: 1, ended: 2, pending: 3 };
const STAMP = /^\d{4}-\d\d-\d\dT[\d:.]+Z /; // Of lines that we put into a log ourselves.
const ROOMY_STAGES = 8; // More of them share the column's width.
const NARROW = matchMedia("(max-width: 700px)");
const DOTS = { d: "d-done", n: "d-now", w: "d-wait", x: "d-bad", "-": "d-over", ".": "" };

/** What is at work first, then what needs somebody, then what has not started, then what is done. */
function attention(item) {
  if (item.state === "running" || item.state === "waiting") return 0;
  if (item.needs || item.kind === "bad") return 1;
  return item.state === "pending" ? 2 : 3;
}

function stageOf(item) {
  return [...(item.dots ?? "")].filter((dot) => dot === "d").length;
}

export function elapsedOf(item, now) {
  if (item.seconds !== null && item.seconds !== undefined) return item.seconds;
  return item.started === null || item.started === undefined ? null : Math.max(0, now - item.started);
}

/** Runs on by the second while it is at work; once it has ended, as exact as what it usually takes. */
export function elapsedWords(item, now) {
  if (item.started === null) return "";
  const seconds = elapsedOf(item, now);
  return item.state === "ended" ? duration(seconds) : clock(seconds);
}

export function itemsView(store) {
  const chosen = recall(store.run);
  const list = new VirtualList({
    makeRow: () => rowView(store),
    heightOf: () => (NARROW.matches ? 66 : 44),
    keyOf: (item) => item.id,
    idPrefix: "item-row-",
  });
  list.coveredTop = () => 48 + 34;
  list.activeKey = chosen.active;
  const search = h("input", { type: "search", placeholder: "Search items", "aria-label": "Search items", value: chosen.text, "aria-keyshortcuts": "/" });
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Show" });
  const chipParts = FILTERS.map((filter) => {
    const number = h("span", { class: "count" });
    return { filter, number, element: button([filter.label, " ", number], () => choose({ filter: filter.name }), { "aria-pressed": "false" }) };
  });
  chips.append(...chipParts.map((part) => part.element));
  const sorter = h("select", { "aria-label": "Order", on: { change: () => choose({ sort: sorter.value, isDown: false }) } },
    h("option", { value: "attention", text: "Under way first" }), h("option", { value: "id", text: "Order of the plan" }),
    COLUMNS.filter((column) => column.value && column.name !== "id").map((column) => h("option", { value: column.name, text: `By ${column.label.toLowerCase()}` })));
  const head = h("div", { class: "grid-row grid-head", role: "row", "aria-rowindex": "1" }, COLUMNS.map((column) => h("div", {
    role: "columnheader", class: `c-${column.name} ${column.isNumber ? "n" : ""}`, data: { column: column.name },
  }, column.value ? button(column.label, () => sortBy(column.name)) : column.label)));
  const grid = h("div", { class: "grid", role: "grid", tabindex: "0", "aria-label": "Items", "aria-colcount": String(COLUMNS.length) },
    h("div", { role: "rowgroup", class: "grid-head-group" }, head), list.element);
  const foot = h("div", { class: "grid-foot", role: "status" });
  const element = h("div", {}, h("div", { class: "tools" }, h("div", { class: "search" }, icon("search"), search), chips, h("span", { class: "spring" }), sorter), grid, foot);
  let shown = [];

  const choose = (change) => {
    Object.assign(chosen, change);
    keep(store.run, chosen);
    update();
  };
  const sortBy = (name) => choose(chosen.sort === name ? { isDown: !chosen.isDown } : { sort: name, isDown: name !== "id" && name !== "stage" && name !== "now" });
  search.addEventListener("input", () => choose({ text: search.value }));

  const update = () => {
    const all = [...store.items.values()];
    const filter = FILTERS.find((one) => one.name === chosen.filter) ?? FILTERS[0];
    const words = chosen.text.toLowerCase().split(/\s+/).filter(Boolean);
    const matching = words.length ? all.filter((item) => matches(item, words)) : all;
    shown = matching.filter(filter.has).sort(orderOf(chosen, store.now()));
    for (const part of chipParts) {
      setText(part.number, matching.filter(part.filter.has).length);
      pressed(part.element, part.filter === filter);
    }
    for (const cell of head.children) setAttribute(cell, "aria-sort", cell.dataset.column === chosen.sort ? (chosen.isDown ? "descending" : "ascending") : null);
    if (sorter.value !== chosen.sort) sorter.value = chosen.sort;
    setAttribute(grid, "aria-rowcount", shown.length + 1);
    grid.classList.toggle("no-branch", !all.some((item) => item.branch));
    list.set(shown);
    foot.hidden = shown.length > 0 && shown.length === all.length;
    setChildren(foot, footWords(shown.length, all.length, () => {
      search.value = "";
      choose({ text: "", filter: "all" });
    }));
    list.draw();
    point();
  };

  const point = () => setAttribute(grid, "aria-activedescendant", list.activePlace >= 0 ? `item-row-${list.activePlace}` : null);
  const move = (step, isAbsolute = false) => {
    if (!shown.length) return;
    const from = list.activePlace;
    const place = isAbsolute ? step : from < 0 ? (step > 0 ? 0 : shown.length - 1) : from + step;
    chosen.active = shown[Math.max(0, Math.min(shown.length - 1, place))].id;
    keep(store.run, chosen);
    list.activate(chosen.active);
    point();
    grid.focus({ preventScroll: true });
  };
  const open = () => {
    if (list.activePlace >= 0) location.hash = itemHash(store.run, list.activeKey);
  };
  grid.addEventListener("focus", () => {
    if (list.activePlace < 0 && shown.length) move(0, true);
  });
  grid.addEventListener("click", (event) => {
    const row = event.target.closest(".item-row");
    if (!row || event.target.closest("a") || getSelection()?.toString()) return;
    location.hash = itemHash(store.run, row.dataset.item);
  });
  const page = () => Math.max(1, Math.floor((window.innerHeight - 160) / list.heightOf()));
  const keys = {
    j: () => move(1), k: () => move(-1), "/": () => search.focus(),
    n: () => move(nextThatNeeds(shown, list.activePlace), true),
  };
  const gridKeys = { ArrowDown: () => move(1), ArrowUp: () => move(-1), PageDown: () => move(page()), PageUp: () => move(-page()), Home: () => move(0, true), End: () => move(shown.length - 1, true), Enter: open };
  grid.addEventListener("keydown", (event) => {
    if (event.target !== grid || !gridKeys[event.key]) return;
    event.preventDefault();
    gridKeys[event.key]();
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === "ArrowDown") move(0, true);
    else if (event.key === "Escape") {
      search.value = "";
      choose({ text: "" });
      grid.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return { element, update, tick: () => list.draw(), keys: { ...keys, Enter: open }, connect: () => list.connect(), destroy: () => list.disconnect() };
}

function nextThatNeeds(shown, from) {
  const after = shown.findIndex((item, place) => place > from && item.needs);
  return after >= 0 ? after : Math.max(0, shown.findIndex((item) => item.needs));
}

function footWords(shown, all, clear) {
  if (!all) return ["This run has no items."];
  if (!shown) return ["No item matches. ", button("Show all", clear, { class: "link" })];
  return [`${shown.toLocaleString("en")} of ${plural(all, "item")}. `, button("Show all", clear, { class: "link" })];
}

function matches(item, words) {
  const text = [item.id, item.label, item.title, item.words, item.reason, item.node, item.last_line, item.branch?.name].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

function orderOf({ sort, isDown }, now) {
  if (sort === "attention") return (a, b) => attention(a) - attention(b) || a.place - b.place;
  const { value } = COLUMNS.find((column) => column.name === sort) ?? COLUMNS[0];
  const sign = isDown ? -1 : 1;
  return (a, b) => {
    const [one, other] = [value(a, now), value(b, now)];
    return (one < other ? -sign : one > other ? sign : 0) || a.place - b.place;
  };
}

/** One row, reused for one item after another: only what differs is touched. */
function rowView(store) {
  const cell = (name, ...children) => h("div", { role: "gridcell", class: `c-${name}` }, children);
  const figure = h("span");
  const label = h("a", { class: "label", tabindex: "-1" });
  const title = h("span", { class: "title" });
  const dots = h("div", { class: "dots", role: "img" });
  const words = h("span");
  const since = h("span", { class: "clock" });
  const bar = h("span");
  const meterBox = h("div", { class: "meter", "aria-hidden": "true" }, bar);
  const time = h("span", { class: "clock" });
  const [attempt, tokens, cost] = [cell("attempt"), cell("tokens"), cell("cost")];
  for (const one of [attempt, tokens, cost]) one.classList.add("n");
  const last = cell("last");
  last.classList.add("last-line");
  const branchName = h("span", { class: "branch" });
  const plus = h("span", { class: "plus" });
  const minus = h("span", { class: "minus" });
  const branch = cell("branch", branchName, h("span", { class: "changes" }, " ", plus, " ", minus));
  const idCell = cell("id", figure, h("span", { class: "names" }, label, " ", title));
  idCell.classList.add("cell-id");
  const nowCell = cell("now", words, since);
  nowCell.classList.add("now-words");
  const timeCell = cell("time", meterBox, time);
  timeCell.classList.add("against");
  const element = h("div", { class: "grid-row item-row", role: "row" },
    idCell, cell("stage", dots), nowCell, timeCell, attempt, tokens, cost, last, branch);
  let figureKind = null;
  let dotted = null;

  const update = (item, isActive) => {
    const now = store.now();
    element.dataset.item = item.id;
    setClass(element, `grid-row item-row${isActive ? " is-active" : ""}`);
    setAttribute(element, "aria-selected", isActive ? "true" : "false");
    if (figureKind !== item.kind) {
      figureKind = item.kind;
      setClass(figure, markClass(item.kind));
      setChildren(figure, { good: icon("good"), bad: icon("bad"), warn: icon("warn"), wait: icon("wait") }[item.kind]);
    }
    setText(label, item.label);
    setAttribute(label, "href", itemHash(store.run, item.id));
    setText(title, item.title === item.label ? "" : item.title);
    setAttribute(idCell, "title", item.title ? `${item.label} ${item.title}` : item.label);
    const dotKey = `${item.dots}|${item.kind}|${store.stages.length}`;
    if (dotted !== dotKey) {
      dotted = dotKey;
      drawDots(dots, item, store.stages);
    }
    setText(words, item.words);
    setClass(words, item.state === "ended" || item.state === "waiting" ? `k-${item.kind === "dim" ? "idle" : item.kind}` : item.state === "pending" ? "dim" : "");
    setText(since, item.since === null || item.since === undefined ? "" : clock(now - item.since));
    setAttribute(nowCell, "title", item.reason || null);
    drawTime(item, now, { timeCell, meterBox, bar, time });
    setText(attempt, item.attempt > 1 ? item.attempt : "");
    const used = item.input_tokens + item.output_tokens;
    setText(tokens, used ? count(used) : "");
    setText(cost, item.cost_usd ? money(item.cost_usd) : "");
    setText(last, item.last_line.replace(STAMP, "") || item.reason || "");
    setAttribute(last, "title", item.last_line || item.reason || null);
    setText(branchName, item.branch?.name ?? "");
    const isSized = Number.isFinite(item.branch?.added);
    setText(plus, isSized ? `+${item.branch.added}` : "");
    setText(minus, isSized ? `−${item.branch.removed}` : "");
    setAttribute(branch, "title", item.branch?.name ?? null);
  };
  return { element, update };
}

/** One per stage; those that an item has not come to are not told. */
export function marksOf(item, stages) {
  return [...(item.dots ?? "").padEnd(stages.length, ".")];
}

/** Where an item stands that ended and needs somebody: the stage it left unfinished, else its last. -1: nowhere. */
export function placeOfEnd(item, marks) {
  if (item.kind !== "warn" || item.state !== "ended") return -1;
  return marks.includes("h") ? marks.indexOf("h") : marks.lastIndexOf("d");
}

function drawDots(dots, item, stages) {
  const marks = marksOf(item, stages);
  const end = placeOfEnd(item, marks);
  setClass(dots, marks.length > ROOMY_STAGES ? "dots many" : "dots");
  setChildren(dots, marks.map((dot, place) => h("i", { class: place === end ? "d-warn" : DOTS[dot] ?? "", title: stages[place] ?? "" })));
  const done = marks.filter((dot) => dot === "d").length;
  setAttribute(dots, "aria-label", item.node ? `${item.node}, ${done} of ${marks.length} stages done` : `${done} of ${marks.length} stages done`);
}

function drawTime(item, now, { timeCell, meterBox, bar, time }) {
  const seconds = elapsedOf(item, now);
  setText(time, elapsedWords(item, now));
  const usual = item.usual;
  const part = usual && seconds !== null ? seconds / usual : null;
  meterBox.style.visibility = part === null || item.state === "ended" ? "hidden" : "visible";
  setClass(meterBox, `meter${part > 2 ? " bad" : part > 1.25 ? " warn" : ""}`);
  bar.style.width = `${Math.min(100, (part ?? 0) * 100)}%`;
  setAttribute(timeCell, "title", usual ? `usually ${duration(usual)}` : null);
}

const kept = new Map();

function recall(run) {
  return kept.get(run) ?? { text: "", filter: "all", sort: "attention", isDown: false, active: null };
}

function keep(run, chosen) {
  kept.set(run, chosen);
}
