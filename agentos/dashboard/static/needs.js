// "Needs you": what waits for a person, with its reason and its button. Hidden when there is nothing.

import { actionButton, itemHash } from "./acts.js";
import { button, h, setChildren } from "./dom.js";
import { mark } from "./widgets.js";

const FEW = 4;
const KINDS = { review: "warn", failed: "bad", conflict: "bad", lost: "bad", keys: "wait", paused: "wait" };

export function needsView(store) {
  const list = h("ul");
  const badge = h("span", { class: "badge" });
  const more = h("div", { class: "more" });
  const element = h("section", { class: "panel needs", "aria-labelledby": "needs-title" },
    h("div", { class: "panel-head" }, h("h2", { id: "needs-title" }, "Needs you ", badge)), list, more);
  let showsAll = false;
  let shown = "";
  const update = () => {
    const needs = store.needs;
    const key = JSON.stringify([needs, showsAll]);
    if (key === shown) return;
    shown = key;
    element.hidden = !needs.length;
    badge.textContent = String(needs.length);
    redraw(list, (showsAll ? needs : needs.slice(0, FEW)).map((need) => needView(store, need)));
    const left = needs.length - FEW;
    more.hidden = left <= 0;
    setChildren(more, button(showsAll ? "Show fewer" : `Show ${left} more`, () => {
      showsAll = !showsAll;
      update();
    }, { class: "link" }));
  };
  return { element, update };
}

/** New rows; the button that had the focus keeps it, if it is still offered. */
function redraw(list, rows) {
  const held = list.contains(document.activeElement) ? [document.activeElement.closest("li")?.dataset.need, document.activeElement.dataset.act] : null;
  list.replaceChildren(...rows);
  if (!held) return;
  const row = rows.find((one) => one.dataset.need === held[0]);
  row?.querySelector(held[1] ? `[data-act="${held[1]}"]` : "a")?.focus();
}

function needView(store, need) {
  const item = need.item === null ? null : { id: need.item, label: need.label };
  const title = need.title ? h("small", { text: need.title }) : null;
  const name = item ? h("a", { href: itemHash(store.run, need.item) }, need.label, title) : h("span", {}, need.label || "The run", title);
  const actions = [...need.actions].sort((a, b) => Number(b.primary ?? false) - Number(a.primary ?? false));
  return h("li", { class: "need", data: { need: need.id, kind: need.kind } },
    mark(KINDS[need.kind] ?? "warn"),
    h("div", { class: "who" }, name),
    h("div", { class: "why" }, h("span", { class: "clamp", text: need.text, title: need.text })),
    h("div", { class: "acts" }, actions.map((action) => actionButton(action, { store, item, command: need.command }))));
}
