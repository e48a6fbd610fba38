// All runs of this home: those under way first, then the past ones.

import { h, keepingFocus, setChildren } from "./dom.js";
import { clock, duration, moment, money, plural } from "./format.js";
import { SILENT_MS, Stream } from "./live.js";
import { endsOf } from "./strip.js";
import { notice, stack, stateWord, table } from "./widgets.js";

export function homeView(home, onState) {
  const body = h("div");
  const element = h("div", {}, h("div", { class: "page-head" }, h("h1", { text: "Runs" }), h("p", { class: "mono dim", text: home.home })), body);
  const draw = ({ runs, notice: told }) => {
    const live = runs.filter((run) => run.is_live);
    const past = runs.filter((run) => !run.is_live);
    setChildren(body,
      !runs.length ? h("div", { class: "panel" }, notice(told)) : null,
      live.length ? h("section", {}, h("h2", { class: "section", text: "Under way" }), h("div", { class: "cards" }, live.map(liveCard))) : null,
      past.length ? h("section", {}, h("h2", { class: "section", text: live.length ? "Earlier" : "Past runs" }), pastTable(past)) : null);
  };
  const take = (answer) => keepingFocus(body, () => draw(answer));
  const stream = new Stream({ open: () => "/api/events", events: { runs: take, beat: () => {} }, onState, silentMs: SILENT_MS });
  return {
    element, stream,
    connect() {
      draw(home);
      stream.start();
    },
    tick() {
      for (const cell of body.querySelectorAll("[data-since]")) cell.textContent = clock((Date.now() - Date.parse(cell.dataset.since)) / 1000);
    },
    title: "Runs",
    destroy: () => stream.stop(),
  };
}

function runHref(run) {
  return `#/runs/${encodeURIComponent(run.run)}`;
}

function liveCard(run) {
  return h("a", { class: "card", href: runHref(run) },
    h("div", { class: "card-head" }, h("h3", {}, `${run.project} `, h("span", { class: "dim", text: run.workflow })), stateWord(run.kind, run.words)),
    stack(endsOf(run), run.total),
    h("dl", { class: "facts" },
      h("div", {}, h("dt", { text: "Items" }), h("dd", { text: `${run.ended} of ${run.total}` })),
      h("div", {}, h("dt", { text: "Elapsed" }), h("dd", { data: { since: run.started }, text: clock((Date.now() - Date.parse(run.started)) / 1000) })),
      h("div", {}, h("dt", { text: "Spent" }), h("dd", { text: money(run.cost_usd) }))),
    run.needs ? h("p", { class: "need-line", text: run.needs === 1 ? "1 item needs you" : `${run.needs} items need you` }) : null,
    run.problem ? h("p", { class: "need-line", text: run.problem }) : null);
}

function pastTable(runs) {
  return table("Past runs", [["Run"], ["State"], ["Items"], [""], ["Time", 1], ["Speed-up", 1], ["Cost", 1], ["Started"]], runs.map(pastRow));
}

function pastRow(run) {
  const words = run.counts.map((one) => one.words).join(", ");
  return h("tr", {},
    h("th", { scope: "row", class: "keep" }, h("a", { href: runHref(run) }, h("span", { class: "name", text: run.project || run.run }), " ", h("span", { class: "dim", text: run.workflow }))),
    h("td", {}, stateWord(run.kind, run.words), run.needs ? h("div", { class: "k-warn", text: `${plural(run.needs, "item needs", "items need")} you` }) : null,
      run.problem ? h("div", { class: "dim", text: run.problem }) : null),
    h("td", { class: "wide", text: words || `${run.ended} of ${run.total}` }),
    h("td", {}, stack(endsOf(run), run.total, "mini-stack")),
    h("td", { class: "n", text: run.wall_seconds === null ? "" : duration(run.wall_seconds) }),
    h("td", { class: "n", text: run.speed_up ? `${run.speed_up.toFixed(1)}×` : "" }),
    h("td", { class: "n", text: run.cost_usd ? money(run.cost_usd) : "" }),
    h("td", { class: "keep dim", text: moment(run.started) }));
}
