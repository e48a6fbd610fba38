// Past runs side by side: success, cost, wall time, speed-up; flaky items; durations by node; two runs compared.

import { get } from "./api.js";
import { button, h, keepingFocus, setChildren } from "./dom.js";
import { count, duration, moment, money, percent } from "./format.js";
import { isFrozen, isRunThere } from "./frozen.js";
import { kindClass, loading, meter, notice, refused, stateWord, table } from "./widgets.js";

const NODES_SHOWN = 40;

export function historyView(goTo) {
  const body = h("div", {}, loading());
  const tools = h("div", { class: "tools" });
  const element = h("div", {}, h("div", { class: "page-head" }, h("h1", { text: "History" })), tools, body);
  const chosen = { project: "", workflow: "" };
  const picked = new Set();
  let asked = 0;
  const compare = button("Compare", () => goTo(`#/compare/${[...picked].map(encodeURIComponent).join("/")}`), { class: "primary" });
  const said = h("span", { class: "dim" });

  const pick = (run, isPicked) => {
    if (isPicked) picked.add(run);
    else picked.delete(run);
    if (picked.size > 2) picked.delete(picked.values().next().value);
    for (const box of body.querySelectorAll("input[type=checkbox]")) box.checked = picked.has(box.value);
    compare.disabled = picked.size !== 2;
    said.textContent = ["Choose two runs to compare them.", "Choose one more."][picked.size] ?? "";
  };
  const load = async () => {
    try {
      const mine = ++asked;
      const history = await get("/api/history", chosen);
      if (mine !== asked) return;
      keepingFocus(tools, () => setChildren(tools, filterOf("Project", "project", history.projects.map((one) => [one.project_dir, one.project])), filterOf("Workflow", "workflow", history.workflows.map((name) => [name, name])),
        isFrozen ? null : [h("span", { class: "spring" }), said, compare]));
      setChildren(body, history.runs.length ? [runsTable(history.runs, pick), flakyPart(history.flaky), nodesPart(history.nodes)] : h("div", { class: "panel" }, notice(history.notice ?? { text: "No run has ended yet." })));
      tools.hidden = !history.runs.length && !chosen.project && !chosen.workflow;
      pick("", false);
    } catch (error) {
      setChildren(body, refused(error));
    }
  };
  const filterOf = (label, name, options) => {
    const control = h("select", { "aria-label": label, on: { change: () => {
      chosen[name] = control.value;
      load();
    } } }, h("option", { value: "", text: `Every ${label.toLowerCase()}` }), options.map(([value, text]) => h("option", { value, text, selected: value === chosen[name] })));
    return options.length > 1 || chosen[name] ? control : null;
  };
  return { element, load, title: "History" };
}

/** A report has the page of one run only. */
function nameOf(run) {
  const words = [h("span", { class: "name", text: run.project }), " ", h("span", { class: "dim", text: run.workflow })];
  return isRunThere(run.run) ? h("a", { href: `#/runs/${encodeURIComponent(run.run)}` }, words) : words;
}

function runsTable(runs, pick) {
  const longest = Math.max(1, ...runs.map((run) => run.wall_seconds ?? 0));
  const row = (run) => h("tr", {},
    isFrozen ? null : h("td", {}, h("input", { type: "checkbox", value: run.run, "aria-label": `Compare ${run.project} ${run.workflow}, ${moment(run.started)}`, on: { change: (event) => pick(run.run, event.target.checked) } })),
    h("th", { scope: "row", class: "keep" }, nameOf(run)),
    h("td", {}, stateWord(run.kind, run.words)),
    h("td", { class: "n" }, `${run.good.toLocaleString("en")} of ${run.tried.toLocaleString("en")}${run.tried === run.total ? "" : " tried"}`, h("span", { class: "dim", text: run.success === null ? "" : ` · ${percent(run.success)}` })),
    h("td", { class: "n" }, run.wall_seconds === null ? "" : duration(run.wall_seconds), meter((run.wall_seconds ?? 0) / longest)),
    h("td", { class: "n", text: run.speed_up ? `${run.speed_up.toFixed(1)}×` : "" }), h("td", { class: "n", text: run.tokens ? count(run.tokens) : "" }),
    h("td", { class: "n", text: run.cost_usd ? money(run.cost_usd) : "" }), h("td", { class: "keep dim", text: moment(run.started) }));
  return table("Runs", [...(isFrozen ? [] : [[""]]), ["Run"], ["State"], ["Success", 1], ["Wall time", 1], ["Speed-up", 1], ["Tokens", 1], ["Cost", 1], ["Started"]], runs.map(row));
}

function flakyPart(flaky) {
  if (!flaky.length) return null;
  return h("section", {}, h("h2", { class: "section", text: "Flaky items" }), table("Flaky items", [["Item"], ["Workflow"], ["Runs", 1], ["Failed", 1], ["Retries", 1], [""]],
    flaky.map((item) => h("tr", {}, h("th", { scope: "row", class: "keep", text: item.label }), h("td", { text: `${item.project} ${item.workflow}` }), h("td", { class: "n", text: item.runs }), h("td", { class: "n", text: item.failed }), h("td", { class: "n", text: item.retries }), h("td", { class: "keep dim", text: item.words })))));
}

function nodesPart(nodes) {
  if (!nodes.length) return null;
  const longest = Math.max(...nodes.map((node) => node.p90 || 0), 0.001);
  return h("section", {}, h("h2", { class: "section", text: "How long each step takes" }), table("How long each step takes", [["Workflow"], ["Step"], ["Times", 1], ["Median", 1], ["9 in 10 under", 1], ["Longest", 1]],
    nodes.slice(0, NODES_SHOWN).map((node) => h("tr", {}, h("td", { text: node.workflow }), h("th", { scope: "row", text: node.node }), h("td", { class: "n", text: count(node.count) }), h("td", { class: "n", text: duration(node.median) }),
      h("td", { class: "n" }, duration(node.p90), meter(node.p90 / longest)), h("td", { class: "n", text: duration(node.longest) })))));
}

export function compareView(a, b) {
  const body = h("div", {}, loading());
  const element = h("div", {}, h("nav", { class: "crumbs", "aria-label": "Where you are" }, h("a", { href: "#/history", text: "History" })), h("h1", { text: "Two runs compared" }), body);
  const load = async () => {
    try {
      const both = await get("/api/compare", { a, b });
      setChildren(body, factsPart(both), itemsPart(both));
    } catch (error) {
      setChildren(body, refused(error));
    }
  };
  return { element, load, title: "Compare" };
}

function runHeading(run) {
  return h("th", { scope: "col" }, h("a", { href: `#/runs/${encodeURIComponent(run.run)}`, text: `${run.project} ${run.workflow}` }), h("div", { class: "dim", text: moment(run.started) }));
}

function factsPart(both) {
  const rows = both.facts.map((fact) => h("tr", {}, h("th", { scope: "row", text: fact.name }), h("td", { text: fact.a }), h("td", { text: fact.b }), h("td", { class: kindClass(fact.kind), text: fact.words })));
  return h("div", { class: "panel table-scroll" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, h("td"), runHeading(both.a), runHeading(both.b), h("th", { scope: "col", text: "Difference" }))), h("tbody", {}, rows)));
}

function itemsPart(both) {
  const changed = both.items.filter((item) => item.is_changed);
  const side = (end) => (end ? [stateWord(end.kind, end.words), " ", h("span", { class: "dim", text: duration(end.seconds) })] : h("span", { class: "dim", text: "not in this run" }));
  const rows = (changed.length ? changed : both.items).slice(0, 500).map((item) => h("tr", {}, h("th", { scope: "row", text: item.label }), h("td", {}, side(item.a)), h("td", {}, side(item.b))));
  const title = changed.length ? `Items that ended differently (${changed.length})` : "Every item ended as before";
  return h("section", {}, h("h2", { class: "section", text: title }), h("div", { class: "panel table-scroll" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, h("th", { scope: "col", text: "Item" }), runHeading(both.a), runHeading(both.b))), h("tbody", {}, rows))));
}
