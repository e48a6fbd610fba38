// "Needs you": what waits for a person, with its reason and its button. Hidden when there is nothing.

import { actionButton, itemHash } from "./acts.js";
import { button, h, keepingFocus, setChildren } from "./dom.js";
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
    badge.textContent = store.needing.toLocaleString("en");
    keepingFocus(list, () => list.replaceChildren(...(showsAll ? needs : needs.slice(0, FEW)).map((need) => needView(store, need))));
    more.hidden = needs.length <= FEW;
    setChildren(more, button(showsAll ? "Show fewer" : `Show ${needs.length - FEW} more`, () => {
      showsAll = !showsAll;
      update();
    }, { class: "link" }));
  };
  return { element, update };
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
