// Keys by group: their state, calls and 429s over time, what is learned of their limits. Names only.

import { h, setChildren, svg } from "./dom.js";
import { count, countdown, duration, money } from "./format.js";
import { kindClass, notice, stateWord } from "./widgets.js";

const MOST_MINUTES = 120;

export function keysPart(keysOf, nowOf, noticeOf = () => null) {
  const element = h("div");
  let shown = "";
  const update = () => {
    const keys = keysOf();
    const key = JSON.stringify([keys, keys.some((one) => one.until !== null) ? Math.floor(nowOf()) : 0]);
    if (key === shown) return;
    shown = key;
    if (!keys.length) {
      setChildren(element, h("div", { class: "panel" }, notice(noticeOf() ?? { text: "This run uses no keys.", hint: "Its models answer without one, or none was called yet." })));
      return;
    }
    setChildren(element, [...grouped(keys)].map(([name, members]) => groupView(name, members, nowOf())));
  };
  return { element, update, tick: update, keys: {} };
}

function groupOf(key) {
  const shared = key.group === key.name ? "" : key.group;
  return [key.provider, shared].filter(Boolean).join(" · ");
}

function grouped(keys) {
  const groups = new Map();
  for (const key of keys) groups.set(groupOf(key), [...(groups.get(groupOf(key)) ?? []), key]);
  return groups;
}

function groupView(name, keys, now) {
  return h("section", { "aria-label": name || "Keys" },
    name ? h("h2", { class: "section", text: name }) : null,
    h("div", { class: "cards" }, keys.map((key) => keyCard(key, now))));
}

function keyCard(key, now) {
  const left = key.until === null || key.until === undefined ? null : Math.max(0, key.until - now);
  const words = left === null || key.state !== "cooling" ? key.words || key.state : `cooling, back in ${countdown(left)}`;
  const facts = [
    ["Calls", count(key.calls)],
    key.limited === null ? null : ["429s", count(key.limited), key.limited ? "k-warn" : ""],
    key.tokens ? ["Tokens", count(key.tokens)] : null,
    key.cost_usd ? ["Cost", money(key.cost_usd)] : null,
    key.waited >= 1 ? ["Waited for it", duration(key.waited)] : null,
  ].filter(Boolean);
  return h("article", { class: "card key-card" },
    h("div", { class: "card-head" }, h("h3", { class: "mono", text: key.name }), stateWord(key.kind, words)),
    key.held_by?.length ? h("p", { text: `held by ${key.held_by.join(", ")}` }) : null,
    key.reason ? h("p", { class: kindClass(key.kind), text: key.reason }) : null,
    key.minutes?.length ? spark(key.minutes) : null,
    h("dl", { class: "facts" }, facts.map(([name, value, kind]) => h("div", {}, h("dt", { text: name }), h("dd", { class: kind ?? "", text: value })))),
    key.limits?.length ? h("ul", { class: "limits" }, key.limits.map((text) => h("li", { text }))) : null);
}

/** Calls by minute, and over them the refused ones. */
function spark(minutes) {
  const last = minutes.at(-1)[0];
  const first = Math.max(minutes[0][0], last - MOST_MINUTES + 1);
  const [span, most] = [last - first + 1, Math.max(1, ...minutes.map(([, calls]) => calls))];
  const slots = Math.max(span, 12);
  const bars = minutes.filter(([minute]) => minute >= first).flatMap(([minute, calls, limited]) => {
    const x = ((minute - first) / slots) * 300;
    const wide = Math.max(1, 300 / slots - 1);
    const tall = (number) => (number / most) * 32;
    return [svg("rect", { class: "calls", x, y: 34 - tall(calls), width: wide, height: tall(calls) }), limited ? svg("rect", { class: "limited", x, y: 34 - tall(limited), width: wide, height: tall(limited) }) : null];
  });
  const refusedCount = minutes.reduce((sum, row) => sum + row[2], 0);
  return svg("svg", { class: "spark", viewBox: "0 0 300 34", preserveAspectRatio: "none", role: "img", "aria-label": `Calls by minute over ${span} minutes, at most ${most}; ${refusedCount} refused` }, bars);
}
