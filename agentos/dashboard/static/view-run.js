// A run: strip, what needs you, and its items, timeline, keys and notes.

import { h, setChildren } from "./dom.js";
import { clock } from "./format.js";
import { itemsView } from "./items.js";
import { keysPart } from "./keys.js";
import { needsView } from "./needs.js";
import { stripView } from "./strip.js";
import { timelineView } from "./timeline.js";
import { notice, refused, tabList, tabPanel } from "./widgets.js";

export const RUN_TABS = ["items", "timeline", "keys", "notes"];

export function runView(store, wantedTab, goTo) {
  const strip = stripView(store);
  const needs = needsView(store);
  const tabsBox = h("div");
  const panelBox = h("div");
  const tab = RUN_TABS.includes(wantedTab) ? wantedTab : "items";
  const part = makePart(store, tab);
  const element = h("div", {}, strip.element, needs.element, tabsBox, panelBox);
  const runHash = `#/runs/${encodeURIComponent(store.run)}`;
  let counted = "";

  const drawTabs = () => {
    const tabs = [
      { name: "items", label: "Items", count: ` ${store.items.size.toLocaleString("en")}` }, { name: "timeline", label: "Timeline" },
      { name: "keys", label: "Keys", count: store.keys.length ? ` ${store.keys.length}` : "" }, { name: "notes", label: "Notes", count: store.notes.size ? ` ${store.notes.size}` : "" },
    ];
    const key = JSON.stringify(tabs);
    if (key === counted) return;
    counted = key;
    const focused = tabsBox.contains(document.activeElement);
    setChildren(tabsBox, tabList("Views of the run", tabs, tab, (name) => goTo(name === "items" ? runHash : `${runHash}/${name}`)));
    if (focused) tabsBox.querySelector('[aria-selected="true"]')?.focus();
  };
  const update = () => {
    strip.update();
    needs.update();
    drawTabs();
    part.update();
  };
  drawTabs();
  setChildren(panelBox, tabPanel(tab, part.element));
  return {
    element, update,
    tick: () => {
      strip.tick();
      part.tick?.();
    },
    keys: { ...part.keys, i: () => goTo(runHash), t: () => goTo(`${runHash}/timeline`) },
    connect() {
      part.connect?.();
      part.load?.().catch((error) => setChildren(panelBox, tabPanel(tab, refused(error))));
    },
    destroy: () => part.destroy?.(),
  };
}

function makePart(store, tab) {
  if (tab === "timeline") return { ...timelineView(store), load: () => store.loadBlocks() };
  if (tab === "keys") return keysPart(() => store.keys, () => store.now());
  if (tab === "notes") return notesPart(store);
  if (store.notice && !store.items.size) return { element: h("div", { class: "panel" }, notice(store.notice)), update: () => {}, keys: {} };
  return itemsView(store);
}

function notesPart(store) {
  const body = h("tbody");
  const empty = h("p", { class: "empty-line", text: "Nothing worth a note has happened to the run itself." });
  const table = h("div", { class: "panel table-scroll" }, h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "n", text: "At" }), h("th", { scope: "col", text: "What happened to the run" }))), body));
  let shown = -1;
  const update = () => {
    empty.hidden = store.notes.size > 0;
    table.hidden = !store.notes.size;
    if (shown === store.notes.size) return;
    shown = store.notes.size;
    body.replaceChildren(...[...store.notes.values()].reverse().map((note) => h("tr", {}, h("td", { class: "n dim", text: clock(note.at) }), h("td", { class: "wide", text: note.text }))));
  };
  return { element: h("div", {}, empty, table), update, keys: {} };
}
