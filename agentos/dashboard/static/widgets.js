// Small parts that several views share: marks, commands to copy, notices, messages, dialogs, tabs.

import { append, button, h, icon, setAttribute } from "./dom.js";

const MARKS = { good: "good", warn: "warn", bad: "bad", wait: "wait" };

/** A round mark for a kind: its figure tells it apart without colour. */
export function mark(kind) {
  return h("span", { class: markClass(kind), "aria-hidden": "true" }, MARKS[kind] ? icon(MARKS[kind]) : null);
}

export function markClass(kind) {
  return `mark m-${MARKS[kind] ? kind : kind === "run" ? "run" : "idle"}`;
}

export function kindClass(kind) {
  return `k-${["good", "warn", "bad", "run", "wait"].includes(kind) ? kind : "idle"}`;
}

/** The state of a run or item in a word with its figure. */
export function stateWord(kind, words, more = "") {
  const figure = kind === "run" ? h("span", { class: "pulse", "aria-hidden": "true" }) : icon(MARKS[kind] ?? "skip");
  return h("span", { class: `state ${kindClass(kind)} ${more}` }, figure, h("span", { text: words }));
}

export function command(text) {
  return h("span", { class: "command" }, h("code", { text, tabindex: "0" }), copyButton(() => text, `Copy: ${text}`));
}

export function copyButton(textOf, label = "Copy", words = null) {
  return button([icon("copy"), words], async () => {
    try {
      await navigator.clipboard.writeText(textOf());
      toast("Copied.", "good");
    } catch {
      toast("The browser does not let the page copy. Select the text, and copy it by hand.", "bad");
    }
  }, { class: words ? "small" : "quiet square small", "aria-label": label, title: label });
}

/** In place of what is asked for and not there yet. */
export function loading() {
  return h("div", { class: "placeholder slow", role: "status", text: "Loading…" });
}

/** In place of something empty: what is the case, and what to do next. */
export function notice(told) {
  return h("div", { class: "empty" },
    h("h2", { text: told.text }),
    told.hint ? h("p", { text: told.hint }) : null,
    told.command ? command(told.command) : null);
}

export function problem(text, { hint = "", commandText = "", kind = "bad" } = {}) {
  return h("div", { class: `problem ${kind}`, role: "note" }, icon("warn"),
    h("div", {}, h("strong", { text }), hint ? h("span", { text: hint }) : null, commandText ? h("div", {}, command(commandText)) : null));
}

export function refused(error) {
  return h("div", { class: "panel" }, notice({ text: error.message, hint: error.hint, command: error.command }));
}

let toasts = null;

export function toast(text, kind = "good", { hint = "", commandText = "" } = {}) {
  toasts ??= document.querySelector("#toasts");
  const close = () => told.remove();
  const told = h("div", { class: `toast ${kind}` }, icon(kind === "bad" ? "bad" : "good"),
    h("div", {}, h("div", { text }), hint ? h("div", { class: "dim", text: hint }) : null, commandText ? command(commandText) : null),
    button(icon("close"), close, { class: "quiet square small", "aria-label": "Dismiss" }));
  toasts.append(told);
  const closeUnlessRead = () => (told.matches(":hover, :focus-within") ? setTimeout(closeUnlessRead, 1000) : close());
  setTimeout(closeUnlessRead, kind === "bad" || commandText ? 15_000 : 4000);
}

/**
 * A dialog that asks. `fields`: elements; `act()` may throw a `Refused`, whose words are shown and the dialog stays.
 * The focus goes back to where it was.
 */
export function dialog({ title, body = [], submit, act, isDangerous = false, closeWords = "Cancel" }) {
  const error = h("p", { class: "error", role: "alert" });
  const sent = submit ? h("button", { type: "submit", class: isDangerous ? "danger" : "primary", text: submit }) : null;
  const form = h("form", { method: "dialog" },
    h("h2", { text: title }), body, error,
    h("div", { class: "row" }, button(closeWords, () => box.close()), sent));
  const box = h("dialog", { "aria-label": title }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    sent.disabled = true;
    error.textContent = "";
    try {
      await act();
      box.close();
    } catch (refusal) {
      error.textContent = [refusal.message, refusal.hint].filter(Boolean).join(" ");
      if (refusal.command) append(error, [h("div", {}, command(refusal.command))]);
      sent.disabled = false;
    }
  });
  const before = document.activeElement;
  box.addEventListener("close", () => {
    box.remove();
    before?.focus?.();
  });
  document.body.append(box);
  box.showModal();
  return box;
}

export function field(label, input, help = "") {
  const id = `field-${Math.random().toString(36).slice(2)}`;
  input.id = id;
  return h("div", { class: "field" }, h("label", { for: id, text: label }), input, help ? h("div", { class: "dim", text: help }) : null);
}

/** Tabs after the ARIA pattern: arrows move, the panel is labelled. `tabs`: `[{name, label, count}]`. */
export function tabList(label, tabs, chosen, onChoose) {
  const list = h("div", { class: "tabs", role: "tablist", "aria-label": label });
  const elements = tabs.map((tab) => h("button", {
    type: "button", role: "tab", id: `tab-${tab.name}`, "aria-controls": "tab-panel",
    "aria-selected": String(tab.name === chosen), tabindex: tab.name === chosen ? "0" : "-1",
    on: { click: () => onChoose(tab.name) },
  }, tab.label, tab.count ? h("span", { class: "count", text: tab.count }) : null));
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const place = elements.indexOf(document.activeElement);
    const next = (place + step + elements.length) % elements.length;
    onChoose(tabs[next].name);
    document.querySelector(`#tab-${tabs[next].name}`)?.focus();
  });
  append(list, elements);
  return list;
}

export function tabPanel(chosen, ...children) {
  return h("div", { role: "tabpanel", id: "tab-panel", "aria-labelledby": `tab-${chosen}` }, children);
}

/** `headings`: `[text, isNumber]`. On a narrow screen a row is a paragraph, in which each cell says what it is. */
export function table(label, headings, rows) {
  for (const row of rows) [...row.children].forEach((cell, place) => headings[place][0] && (cell.dataset.name = headings[place][0]));
  return h("div", { class: "panel table-scroll", tabindex: "0", role: "region", "aria-label": label }, h("table", { class: "plain folds" },
    h("thead", {}, h("tr", {}, headings.map(([text, isNumber]) => (text ? h("th", { scope: "col", class: isNumber ? "n" : "", text }) : h("td"))))), h("tbody", {}, rows)));
}

export function meter(part, kind = "") {
  const bar = h("span");
  const box = h("div", { class: `meter ${kind}`, "aria-hidden": "true" }, bar);
  bar.style.width = `${Math.min(100, Math.max(0, part * 100))}%`;
  return box;
}

/** A bar stacked by outcome: `[{number, kind, words}]`. */
export function stack(parts, total, className = "stack") {
  const bar = h("div", { class: className, role: "img", "aria-label": parts.map((part) => part.words).join(", ") || "nothing yet" });
  for (const part of parts) {
    if (!part.number) continue;
    const piece = h("span", { class: `f-${part.kind === "dim" ? "idle" : part.kind}`, title: part.words });
    piece.style.flexGrow = String(part.number);
    bar.append(piece);
  }
  const counted = parts.reduce((sum, part) => sum + part.number, 0);
  if (total > counted) {
    const rest = h("span");
    rest.style.flexGrow = String(total - counted);
    bar.append(rest);
  }
  return bar;
}

let speaker = null;

/** Say something to a screen reader, politely. */
export function announce(text) {
  speaker ??= document.querySelector("#announcer");
  if (speaker && text && speaker.textContent !== text) speaker.textContent = text;
}

export function pressed(control, isPressed) {
  setAttribute(control, "aria-pressed", String(isPressed));
}
