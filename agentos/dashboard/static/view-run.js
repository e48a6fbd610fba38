// A run: strip, what needs you, and its items, timeline, keys and notes.

import { h, setChildren } from "./dom.js";
import { clock } from "./format.js";
import { itemsView } from "./items.js";
import { keysPart } from "./keys.js";
import { needsView } from "./needs.js";
import { stripView } from "./strip.js";
import { timelineView } from "./timeline.js";
import { notice, refused, tabList, tabPanel } from "./widgets.js";

const RUN_TABS = ["items", "timeline", "keys", "notes"];

export function runView(store, wantedTab, goTo) {
  const strip = stripView(store);
  const needs = needsView(store);
  const tabsBox = h("div");
  const panelBox = h("div");
  let tab = "";
  let part = null;
  const element = h("div", {}, strip.element, needs.element, tabsBox, panelBox);
  const runHash = `#/runs/${encodeURIComponent(store.run)}`;
  let counted = "";

  const drawTabs = () => {
    const tabs = [
      { name: "items", label: "Items", count: ` ${store.items.size.toLocaleString("en")}` }, { name: "timeline", label: "Timeline" },
      { name: "keys", label: "Keys", count: store.keys.length ? ` ${store.keys.length}` : "" }, { name: "notes", label: "Notes", count: store.notes.size ? ` ${store.notes.size}` : "" },
    ];
    const key = JSON.stringify([tab, tabs]);
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
    if (part.isOutdated?.()) showTab(tab);
    part.update();
  };
  /** The place on the page and the focus stay: strip and needs are not drawn anew. */
  const showTab = (name) => {
    const wasInside = panelBox.contains(document.activeElement);
    part?.destroy?.();
    tab = RUN_TABS.includes(name) ? name : "items";
    part = makePart(store, tab);
    drawTabs();
    setChildren(panelBox, tabPanel(tab, part.element));
    if (wasInside) tabsBox.querySelector('[aria-selected="true"]').focus({ preventScroll: true });
    part.connect?.();
    part.load?.().catch((error) => setChildren(panelBox, tabPanel(tab, refused(error))));
  };
  return {
    element, update, showTab, store,
    tick: () => {
      strip.tick();
      part.tick?.();
    },
    get keys() {
      return { ...part.keys, i: () => goTo(runHash), t: () => goTo(`${runHash}/timeline`) };
    },
    connect: () => showTab(wantedTab),
    destroy: () => part.destroy?.(),
  };
}

function makePart(store, tab) {
  if (tab === "timeline") return { ...timelineView(store), load: () => store.loadBlocks() };
  if (tab === "keys") return keysPart(() => store.keys, () => store.now());
  if (tab === "notes") return notesPart(store);
  if (store.notice && !store.items.size) return { element: h("div", { class: "panel" }, notice(store.notice)), update: () => {}, isOutdated: () => store.items.size > 0, keys: {} };
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
