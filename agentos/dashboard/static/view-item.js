// One item: what it is doing, its log, documents, changes, calls and attempts; approve and revise here.

import { get, runPath } from "./api.js";
import { actionButton, itemHash } from "./acts.js";
import { changes, diffView } from "./diff.js";
import { append, button, h, icon, keepingFocus, setChildren } from "./dom.js";
import { clock, count, duration, money, plural } from "./format.js";
import { elapsedWords, marksOf, placeOfEnd } from "./items.js";
import { logView } from "./log.js";
import { sanitisedDocument } from "./sanitised.js";
import { command, kindClass, loading, refused, stateWord, tabList, tabPanel, table } from "./widgets.js";

const DOT_STATES = { d: "done", n: "now", w: "now", x: "bad", "-": "", ".": "" };

export function itemView(store, itemId, wantedTab, goTo) {
  const head = h("div");
  const tabsBox = h("div");
  const panelBox = h("div", {}, loading());
  const element = h("div", {}, head, tabsBox, panelBox);
  let detail = null;
  let part = null;
  let tab = wantedTab;
  let asked = 0;
  let shownState = "";

  const row = () => store.items.get(itemId) ?? detail?.item;
  const load = async () => {
    const mine = ++asked;
    try {
      const answer = await get(runPath(store.run, "/item"), { id: itemId });
      if (mine !== asked) return;
      detail = answer;
      drawHead();
      drawTabs();
    } catch (error) {
      if (mine === asked && !detail) setChildren(element, crumbs(), refused(error));
    }
  };
  const choose = (name) => {
    tab = name;
    history.replaceState(null, "", itemHash(store.run, itemId, name));
    drawTabs();
  };
  const tabs = () => {
    const found = [{ name: "log", label: "Log" }];
    if (detail?.review) found.unshift({ name: "review", label: "Review" });
    if (detail?.documents.length) found.push({ name: "documents", label: "Documents", count: ` ${detail.documents.length}` });
    if (detail?.branch) found.push({ name: "branch", label: "Changes" });
    if (detail?.test_report) found.push({ name: "tests", label: "Tests" });
    if (detail?.calls.length) found.push({ name: "calls", label: "Calls", count: ` ${detail.calls.length}` });
    found.push({ name: "about", label: "Steps and attempts" });
    return found;
  };
  const drawTabs = () => {
    const found = tabs();
    const chosen = found.some((one) => one.name === tab) ? tab : detail?.review?.waits ? "review" : "log";
    const focused = document.activeElement?.getAttribute("role") === "tab";
    setChildren(tabsBox, tabList("About this item", found, chosen, choose));
    if (focused) tabsBox.querySelector('[aria-selected="true"]')?.focus();
    const key = `${chosen}|${chosen === "log" ? "" : JSON.stringify(partOf(chosen, detail))}`;
    if (part?.key === key) return;
    part?.destroy?.();
    part = { key, ...makePart(chosen) };
    setChildren(panelBox, tabPanel(chosen, part.element));
    part.connect?.();
    part.load?.().catch((error) => setChildren(panelBox, tabPanel(chosen, refused(error))));
  };
  const makePart = (name) => {
    if (name === "log") return detail?.log ? logView(store, itemId) : { element: h("p", { class: "empty-line", text: row()?.state === "pending" ? "It has not started: there is no log yet." : "It has no log." }) };
    if (name === "review") return { element: reviewPart(detail.review) };
    if (name === "documents") return documentsPart(store, itemId, detail);
    if (name === "branch") return branchPart(store, itemId, detail.branch);
    if (name === "tests") return documentPart(store, itemId, detail.test_report);
    if (name === "calls") return { element: callsTable(detail.calls) };
    return { element: aboutPart(detail) };
  };
  const drawHead = () => {
    const item = row();
    if (!item) return;
    keepingFocus(head, () => setChildren(head, crumbs(), headView(store, item, detail)));
  };
  const inOrder = () => [...store.items.values()].sort((a, b) => a.place - b.place).map((item) => item.id);
  const crumbs = () => {
    const ids = inOrder();
    const place = ids.indexOf(itemId);
    const link = (id, figure, label) => (id === undefined ? null : h("a", { class: "button small", href: itemHash(store.run, id, tab ?? ""), "aria-label": label, title: label }, icon(figure)));
    return h("nav", { class: "crumbs", "aria-label": "Where you are" },
      h("a", { href: `#/runs/${encodeURIComponent(store.run)}` }, icon("back"), ` ${store.strip?.project || "Run"} ${store.strip?.workflow ?? ""}`), h("span", { class: "spring" }),
      place >= 0 ? h("span", { text: `${place + 1} of ${ids.length}` }) : null,
      link(ids[place - 1], "back", "Item before"), link(ids[place + 1], "next", "Item after"));
  };
  const update = () => {
    const item = store.items.get(itemId);
    const state = JSON.stringify([item?.state, item?.outcome, item?.node, item?.attempt, item?.calls, item?.reason, item?.needs, item?.withdrawn]);
    if (state === shownState) return;
    shownState = state;
    drawHead();
    load();
  };
  const tick = () => {
    const item = row();
    const element = head.querySelector("[data-live]");
    if (item && element) element.textContent = nowWords(item, store.now());
  };
  const onAnswered = () => load();
  const jump = (step) => {
    const ids = inOrder();
    const next = ids[ids.indexOf(itemId) + step];
    if (next !== undefined) location.hash = itemHash(store.run, next, tab ?? "");
  };
  return {
    element, update, tick,
    get title() {
      return `${row()?.label ?? itemId}: ${row()?.words ?? ""}`;
    },
    get keys() {
      return { ...part?.keys, j: () => jump(1), k: () => jump(-1), Escape: () => goTo(`#/runs/${encodeURIComponent(store.run)}`) };
    },
    connect: () => document.addEventListener("answered", onAnswered),
    destroy() {
      document.removeEventListener("answered", onAnswered);
      part?.destroy?.();
    },
  };
}

/** What a tab shows: when it is the same, the tab is not drawn anew, and a reader keeps the place. */
function partOf(name, detail) {
  if (!detail) return null;
  return { review: detail.review, documents: [detail.documents, detail.rounds], branch: detail.branch, tests: detail.test_report, calls: detail.calls }[name]
    ?? [detail.nodes, detail.attempts, detail.facts, detail.notices, detail.traceback, detail.checkpoint, detail.approval];
}

function nowWords(item, now) {
  if (item.since !== null && item.since !== undefined) return `${item.words} ${clock(now - item.since)}`;
  return item.words;
}

function headView(store, item, detail) {
  const elapsed = elapsedWords(item, store.now());
  const facts = [
    elapsed ? ["Time", elapsed, item.usual ? `usually ${duration(item.usual)}` : ""] : null,
    item.attempt > 1 ? ["Attempt", String(item.attempt), item.resumed_after ? `continued after ${item.resumed_after}` : ""] : null,
    item.cluster_node ? ["Node", item.cluster_node, ""] : null,
    item.input_tokens + item.output_tokens ? ["Tokens", count(item.input_tokens + item.output_tokens), `${count(item.input_tokens)} in, ${count(item.output_tokens)} out`] : null,
    item.cost_usd ? ["Cost", money(item.cost_usd, { exact: true }), item.calls ? plural(item.calls, "call") : ""] : null,
    item.waited >= 1 ? ["Waited", duration(item.waited), "for keys and limits"] : null,
    item.branch ? ["Branch", changes(item.branch.added, item.branch.removed), item.branch.name] : null,
  ].filter(Boolean);
  const offered = detail?.review?.waits ? detail.review.actions : detail?.actions ?? [];
  return h("section", { class: "item-head", "aria-label": "The item" },
    h("div", { class: "strip-top" },
      h("div", { class: "strip-name" }, h("h1", {}, h("span", { text: item.label }), item.title && item.title !== item.label ? h("span", { class: "dim", text: item.title }) : null)),
      stateLine(item, store.now()),
      h("div", { class: "controls" }, offered.map((action) => actionButton(action, {
        store, item, command: detail?.review?.command ?? "", review: detail?.review, isSmall: false,
      })))),
    item.reason ? h("p", { class: `reason ${kindClass(item.kind)}`, text: item.reason }) : null,
    stagesView(store.stages, item),
    facts.length ? h("dl", { class: "facts" }, facts.map(([name, value, more]) => h("div", {}, h("dt", { text: name }), h("dd", {}, value, more ? h("small", { text: more }) : null)))) : null);
}

function stateLine(item, now) {
  const word = stateWord(item.kind, nowWords(item, now), "state-word");
  word.lastElementChild.dataset.live = "";
  return word;
}

function stagesView(stages, item) {
  const marks = marksOf(item, stages);
  if (!stages.length || !marks.length) return null;
  const end = placeOfEnd(item, marks);
  return h("ol", { class: "stages", "aria-label": "Stages" }, marks.map((dot, place) => {
    const state = place === end ? "warn" : DOT_STATES[dot] ?? "";
    const told = { done: ", done", now: ", now", bad: ", failed here", warn: ", here" }[state] ?? "";
    return h("li", { data: { state } }, h("i", { "aria-hidden": "true" }), stages[place] ?? "", h("span", { class: "unseen", text: told }));
  }));
}

function reviewPart(review) {
  const found = [...(review.questions ?? []), ...(review.findings ?? [])];
  return h("div", {},
      h("div", { class: "decide" }, h("p", {}, h("strong", { text: review.text }), review.verdict ? ` ${review.verdict}` : ""),
        review.actions.length || !review.command ? null : command(review.command)),
      found.length ? h("div", { class: "panel" }, h("div", { class: "panel-head" }, h("h2", { text: "Findings and questions" })), h("div", { class: "panel-body" }, h("ul", {}, found.map((text) => h("li", { text }))))) : null,
      review.document ? paper(review.document) : null);
}

function paper(shown) {
  const words = shown.html ? sanitisedDocument(shown.html) : h("pre", { class: "document-text", tabindex: "0", text: shown.text });
  return h("article", { class: "paper" }, words, shown.is_cut ? h("p", { class: "dim", text: "It is long: the rest is in the file." }) : null);
}

function documentPart(store, itemId, name) {
  const box = h("div", { class: "document-box" }, loading());
  const load = async () => setChildren(box, paper(await get(runPath(store.run, "/document"), { id: itemId, name })));
  return { element: box, load };
}

function documentsPart(store, itemId, { documents, rounds }) {
  const box = h("div", {}, loading());
  const side = h("nav", { class: "side", "aria-label": "Documents" });
  const show = async (control, load) => {
    for (const one of side.querySelectorAll("button")) one.removeAttribute("aria-current");
    control.setAttribute("aria-current", "true");
    try {
      setChildren(box, await load());
    } catch (error) {
      setChildren(box, refused(error));
    }
  };
  const open = (known) => async () => paper(await get(runPath(store.run, "/document"), { id: itemId, name: known.name }));
  const compare = (from, to) => async () => diffView(await get(runPath(store.run, "/diff"), { id: itemId, from: from.name, to: to.name }));
  const entry = (label, small, load) => {
    const control = button(h("span", {}, label, small ? h("small", { text: small }) : null), () => show(control, load));
    return control;
  };
  const controls = documents.map((known) => entry(known.title, known.words ?? known.kind, open(known)));
  append(side, controls);
  const named = (name) => documents.find((known) => known.name === name);
  const pairs = rounds.map((pair) => pair.map(named));
  if (pairs.length) append(side, [h("h2", { text: "Between rounds" }), pairs.map(([from, to]) => entry(`${shortTitle(from)} → ${shortTitle(to)}`, "what changed", compare(from, to)))]);
  const first = Math.max(0, documents.findIndex((known) => known.kind === "final"));
  return { element: h("div", { class: "split" }, side, box), load: () => show(controls[first], open(documents[first])) };
}

function shortTitle(known) {
  return known.title.split("/").pop();
}

function branchPart(store, itemId, branch) {
  const box = h("div", {}, loading());
  const facts = h("dl", { class: "pairs" },
    h("dt", { text: "Branch" }), h("dd", { class: "mono", text: branch.name }),
    h("dt", { text: "Base" }), h("dd", { class: "mono", text: branch.base }),
    h("dt", { text: "Changes" }), h("dd", {}, changes(branch.added, branch.removed), ` in ${branch.files ?? "?"} files`));
  const load = async () => {
    if (branch.state === "gone") setChildren(box, h("p", { class: "empty-line", text: "The branch is gone: it was merged or removed." }));
    else setChildren(box, diffView(await get(runPath(store.run, "/branch-diff"), { id: itemId })));
  };
  return { element: h("div", { class: "branch-part" }, facts, box), load };
}

function callsTable(calls) {
  const row = (call) => h("tr", {}, h("td", { class: "n", text: clock(call.at) }), h("td", { text: call.node }), h("td", { class: "keep", text: call.model }), h("td", { class: "keep mono", text: call.key }),
    h("td", {}, h("span", { class: kindClass(call.kind), text: call.words })), h("td", { class: "n", text: call.waited >= 0.1 ? duration(call.waited) : "" }), h("td", { class: "n", text: duration(call.seconds) }),
    h("td", { class: "n", text: count(call.input_tokens) }), h("td", { class: "n", text: count(call.output_tokens) }), h("td", { class: "n", text: call.cost_usd ? money(call.cost_usd, { exact: true }) : "" }));
  return table("Calls of models", [["At", 1], ["Step"], ["Model"], ["Key"], ["Answer"], ["Waited", 1], ["Took", 1], ["In", 1], ["Out", 1], ["Cost", 1]], calls.map(row));
}

function aboutPart(detail) {
  if (!detail) return h("div");
  const section = (title, ...children) => h("section", { class: "panel" }, h("div", { class: "panel-head" }, h("h2", { text: title })), h("div", { class: "panel-body" }, children));
  const pairs = detail.facts.flatMap((fact) => [h("dt", { text: fact.name }), h("dd", { text: fact.text })]);
  if (detail.approval) {
    pairs.push(h("dt", { text: "Approval" }), h("dd", {}, h("span", { class: kindClass(detail.approval.kind), text: detail.approval.words })));
    if (detail.approval.hash) pairs.push(h("dt", { text: "Hash" }), h("dd", { class: "mono", text: detail.approval.hash }));
  }
  if (detail.checkpoint) pairs.push(h("dt", { text: "Checkpoint" }), h("dd", { text: detail.checkpoint }));
  return h("div", {},
    pairs.length ? section("Facts", h("dl", { class: "pairs" }, pairs)) : null,
    detail.notices.length ? section("What happened to it", h("ul", {}, detail.notices.map((text) => h("li", { text })))) : null,
    detail.traceback ? section("Traceback", h("pre", { class: "document-text", tabindex: "0", text: detail.traceback })) : null,
    detail.nodes.length ? table("Steps", [["Step"], ["Began", 1], ["Took", 1], ["Usually", 1]], detail.nodes.map((node) => h("tr", {}, h("td", { text: node.node }), h("td", { class: "n", text: clock(node.start) }),
      h("td", { class: "n", text: node.end === null ? "under way" : duration(node.seconds) }), h("td", { class: "n", text: node.usual ? duration(node.usual) : "" })))) : null,
    detail.attempts.length ? table("Attempts", [["Attempt", 1], ["Began", 1], ["Ended", 1], ["Continued after"], ["How it ended"]], detail.attempts.map((attempt) => h("tr", {}, h("td", { class: "n", text: attempt.attempt }),
      h("td", { class: "n", text: clock(attempt.started) }), h("td", { class: "n", text: attempt.ended === null ? "" : clock(attempt.ended) }), h("td", { text: attempt.resumed_after }), h("td", { class: "wide", text: attempt.reason })))) : null);
}
