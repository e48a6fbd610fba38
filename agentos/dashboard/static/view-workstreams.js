// Workstreams: what `agentos ws list` knows, which of them touch the same files, and in which order they merge.

import { get } from "./api.js";
import { h, setChildren } from "./dom.js";
import { isRunThere } from "./frozen.js";
import { kindClass, loading, notice, problem, refused, stateWord, table } from "./widgets.js";

export function workstreamsView() {
  const body = h("div", {}, loading());
  const element = h("div", {}, h("div", { class: "page-head" }, h("h1", { text: "Workstreams" })), body);
  const load = async () => {
    try {
      const { projects, notice: told } = await get("/api/workstreams");
      setChildren(body, told || !projects.length ? h("div", { class: "panel" }, notice(told ?? { text: "There are no workstreams.", hint: "A workstream is a worktree with a state. Make one:", command: "agentos ws new NAME" })) : null, projects.map(projectView));
    } catch (error) {
      setChildren(body, refused(error));
    }
  };
  return { element, load, title: "Workstreams" };
}

function projectView(project) {
  return h("section", {},
    h("h2", { class: "section" }, project.project, " ", h("span", { class: "dim mono", text: project.project_dir })),
    project.problem ? problem(project.problem) : null,
    project.workstreams.length ? streamsTable(project.workstreams) : null,
    project.overlaps.length ? overlapsTable(project.overlaps) : null,
    project.merge_order.length ? h("div", { class: "panel" }, h("div", { class: "panel-head" }, h("h2", { text: "Order to merge in" })),
      h("ol", { class: "merge-order" }, project.merge_order.map((one) => h("li", {}, h("strong", { text: one.slug }), " ", h("span", { class: "mono dim", text: one.branch }), " ", h("span", { class: kindClass(one.kind), text: one.words }))))) : null);
}

function streamsTable(streams) {
  const distance = (one) => [one.ahead ? `${one.ahead} ahead` : "", one.behind ? `${one.behind} behind` : ""].filter(Boolean).join(", ");
  return table("Workstreams", [["Workstream"], ["State"], ["Branch"], ["Against its base"], ["Uncommitted", 1], ["Size", 1], ["Last"]], streams.map((one) => h("tr", {},
    h("th", { scope: "row", class: "keep" }, one.run && isRunThere(one.run) ? h("a", { href: `#/runs/${encodeURIComponent(one.run)}`, text: one.slug }) : one.slug),
    h("td", {}, stateWord(one.kind, one.words), one.node ? h("div", { class: "dim", text: one.node }) : null, one.text ? h("div", { class: "dim", text: one.text }) : null),
    h("td", { class: "mono keep", text: one.branch }), h("td", { class: "keep", text: distance(one) }), h("td", { class: "n", text: one.changes || "" }), h("td", { class: "n", text: one.size }), h("td", { class: "keep dim", text: one.last_event }))));
}

function overlapsTable(overlaps) {
  return h("div", {}, h("h3", { class: "section", text: "They touch the same files" }), table("Overlaps", [["One"], ["Other"], [""], ["Files"]], overlaps.map((one) => h("tr", {},
    h("th", { scope: "row", text: one.first }), h("th", { scope: "row", text: one.second }), h("td", { class: "k-warn", text: one.words }), h("td", { class: "mono wide", text: one.files.join(", ") })))));
}
