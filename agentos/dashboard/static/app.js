// The page's frame: what is shown for an address, the bar, the connection, the keyboard, the clock.

import { get, UNREACHABLE } from "./api.js";
import { button, h, setChildren, svg } from "./dom.js";
import { moment, plural } from "./format.js";
import { frozenAt, frozenRun, isFrozen, isThere } from "./frozen.js";
import { keysPart } from "./keys.js";
import { RunStore } from "./live.js";
import { themeSwitch } from "./theme.js";
import { historyView, compareView } from "./view-history.js";
import { homeView } from "./view-home.js";
import { itemView } from "./view-item.js";
import { runView } from "./view-run.js";
import { workstreamsView } from "./view-workstreams.js";
import { announce, dialog, loading, refused } from "./widgets.js";

const HIDDEN_LOOK_MS = 15_000;
const SLOW_MS = 250;
const PAGES = { workstreams: "Workstreams", history: "History", keys: "Keys" };
const KEYS_LOOK_SECONDS = 3;
const main = document.querySelector("#main");
const page = { view: null, store: null, spoken: "" };

function goTo(hash) {
  location.hash = hash;
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // Somebody typed it.
  }
}

/** `#/runs/RUN/items/ITEM/TAB` as its parts. */
function route() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decoded);
  return isFrozen && parts[0] !== "runs" && !isThere(`/api/${parts[0]}`) ? ["runs", frozenRun] : parts;
}

function showConnection(state) {
  const words = { live: "Live", connecting: "Connecting", lost: "Connection lost", still: isFrozen ? `Report, ${moment(frozenAt)}` : "Up to date" }[state];
  live.dataset.state = state;
  setChildren(live, h("span", { text: words }));
  live.title = words;
  const isLost = state === "lost";
  if (isLost === Boolean(banner.firstChild)) return;
  setChildren(banner, isLost ? h("div", { class: "lost-banner" },
    h("span", {}, `Connection lost. What you see is from ${new Date().toLocaleTimeString("en-GB")}. If the server was closed, start it again: `, h("code", { text: "agentos dashboard" })),
    button("Try now", tryNow, { class: "small" })) : null);
}

function tryNow() {
  const stream = page.store?.stream ?? page.view?.stream;
  if (stream) stream.retryNow();
  else show();
}

const banner = document.querySelector("#banner");
const live = h("span", { class: "live", role: "status", data: { state: "connecting" } });
const nav = h("nav", { "aria-label": "Pages" }, [["#/", isFrozen ? "Run" : "Runs"], ...["workstreams", "history", "keys"].filter((name) => isThere(`/api/${name}`)).map((name) => [`#/${name}`, PAGES[name]])].map(([href, text]) => h("a", { href, text })));

function drawBar() {
  const brand = h("a", { class: "brand", href: "#/", "aria-label": isFrozen ? "AgentOS, the run" : "AgentOS, all runs" },
    svg("svg", { viewBox: "0 0 20 20", "aria-hidden": "true" }, svg("rect", { class: "mark-a", x: 1, y: 2, width: 11, height: 4, rx: 2 }), svg("rect", { class: "mark-b", x: 4, y: 8, width: 15, height: 4, rx: 2 }), svg("rect", { class: "mark-c", x: 2, y: 14, width: 8, height: 4, rx: 2 })),
    h("span", { text: "AgentOS" }));
  setChildren(document.querySelector("#bar"), brand, nav, h("span", { class: "spring" }), live,
    button("?", showHelp, { class: "quiet square help", "aria-label": "Keyboard shortcuts", title: "Keyboard shortcuts (?)" }), themeSwitch());
}

function markNav(first) {
  const current = `#/${first === "compare" ? "history" : first in PAGES ? first : ""}`;
  [...nav.children].forEach((link) => (link.getAttribute("href") === current ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current")));
}

async function storeOf(run) {
  if (page.store?.run === run) {
    await page.store.load();
    return page.store;
  }
  page.store?.close();
  const store = new RunStore(run, showConnection);
  page.store = store;
  showConnection("connecting");
  await store.load();
  let frame = 0;
  store.addEventListener("change", () => {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      if (page.store !== store) return;
      page.view?.update?.();
      retitle();
      speak();
    });
  });
  return store;
}

let navigation = 0;

/** What is shown stays until the next view is there, but not for long under an address that is no longer its own. */
async function show() {
  const mine = ++navigation;
  const slow = setTimeout(() => mine === navigation && enter({ element: loading(), title: "Loading" }), SLOW_MS);
  try {
    const view = await viewOf(mine);
    if (view && mine === navigation) enter(view);
  } finally {
    clearTimeout(slow);
  }
}

/** The view for the address; null where the one there is goes on, or another is asked for by now. */
async function viewOf(mine) {
  const [first, run, third, item, tab] = route();
  markNav(first);
  try {
    if (first !== "runs" || !run) {
      page.store?.close();
      page.store = null;
      return await plainView(first, run, third);
    }
    const store = await storeOf(run);
    if (mine !== navigation) return null;
    if (third === "items" && item) return itemView(store, item, tab ?? null, goTo);
    if (page.view?.store !== store) return runView(store, third, goTo);
    page.view.showTab(third);
    page.view.update();
    return null;
  } catch (error) {
    if (mine !== navigation) return null;
    page.store?.close();
    page.store = null;
    showConnection(error.status === UNREACHABLE ? "lost" : "still");
    return { element: refused(error), title: "Not found" };
  }
}

async function plainView(first, a, b) {
  if (first === "workstreams") return still(workstreamsView());
  if (first === "history") return still(historyView(goTo));
  if (first === "compare" && a && b) return still(compareView(a, b));
  if (first === "keys") return still(homeKeysView());
  return homeView(await get("/api/home"), showConnection);
}

function still(view) {
  showConnection("still");
  return view;
}

function homeKeysView() {
  let answer = { keys: [], notice: null };
  let asked = performance.now();
  const part = keysPart(() => answer.keys, () => (performance.now() - asked) / 1000, () => answer.notice ?? { text: "No keys are known.", hint: "Declare one, then check it:", command: "agentos keys check" });
  const element = h("div", {}, h("div", { class: "page-head" }, h("h1", { text: "Keys" })), part.element);
  let ticks = 0;
  const look = async () => {
    answer = await get("/api/keys");
    asked = performance.now();
    part.update();
  };
  return {
    element, title: "Keys",
    tick() {
      part.tick();
      ticks += 1;
      if (ticks % KEYS_LOOK_SECONDS === 0) look().catch(() => {}); // What is shown stays; the next look says more.
    },
    async load() {
      setChildren(part.element, loading());
      try {
        await look();
      } catch (error) {
        setChildren(part.element, refused(error));
      }
    },
  };
}

function enter(view) {
  const isFirst = page.view === null;
  page.view?.destroy?.();
  page.view = view;
  setChildren(main, view.element);
  if (!isFirst) {
    window.scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
  view.connect?.();
  view.update?.();
  view.load?.();
  retitle();
}

function retitle() {
  const { strip, needing } = page.store ?? {};
  if (!strip || page.view?.title) document.title = `${page.view?.title ?? "Runs"} · AgentOS`;
  else document.title = `${needing ? `(${needing}) ` : ""}${strip.ended}/${strip.total} ${strip.project} ${strip.workflow} · ${strip.words}`;
}

/** What a screen reader should hear without looking for it: another state of the run, or somebody is needed. */
function speak() {
  const { strip, needing } = page.store ?? {};
  if (!strip) return;
  const words = `${strip.words}${strip.detail ? `, ${strip.detail}` : ""}. ${strip.ended === strip.total ? "Every item has ended." : ""} ${needing ? `${plural(needing, "thing needs", "things need")} you.` : ""}`;
  if (page.spoken && page.spoken !== words) announce(words);
  page.spoken = words;
}

function showHelp() {
  const keys = [
    [["j", "k"], "next and previous item"], [["Enter"], "open the item"], [["n"], "next item that needs you"], [["/"], "search, or filter the log"],
    [["i", "t"], "items, timeline"], [["f", "e"], "in a log: follow, first error"], [["Esc"], "back"], [["g"], isFrozen ? "the run" : "all runs"], [["?"], "this list"],
  ];
  dialog({ title: "Keyboard shortcuts", closeWords: "Close", body: [h("dl", { class: "keys-list" }, keys.flatMap(([names, words]) => [h("dt", {}, names.map((name) => [h("kbd", { text: name }), " "])), h("dd", { text: words })]))] });
}

function onKey(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const isTyping = event.target.closest("input, textarea, select");
  if (isTyping) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "Enter" && event.target.closest("a, button, summary, canvas, [role=grid]")) return;
  const act = { "?": showHelp, g: () => goTo("#/") }[event.key] ?? page.view?.keys?.[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

/** A tab in the background gave its stream back: its title is kept true by a look now and then. */
async function lookFromBehind() {
  if (isFrozen || !document.hidden || !page.store || page.store.stream.source || !page.store.strip?.is_live) return;
  try {
    const { runs } = await get("/api/home");
    const row = runs.find((one) => one.run === page.store.run);
    if (row) document.title = `${row.needs ? `(${row.needs}) ` : ""}${row.ended}/${row.total} ${row.project} ${row.workflow} · ${row.words}`;
  } catch {
    // The stream says so when the tab is looked at again.
  }
}

drawBar();
document.querySelector("#skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
document.addEventListener("keydown", onKey);
window.addEventListener("hashchange", show);
setInterval(() => document.hidden || page.view?.tick?.(), 1000);
setInterval(lookFromBehind, HIDDEN_LOOK_MS);
show();
