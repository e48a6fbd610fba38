// The strip: the run in one look, and what steers it.

import { changeBudget, parallel, pause, resume, stopRun } from "./acts.js";
import { button, h, keepingFocus, setChildren } from "./dom.js";
import { clock, count, countdown, duration, moment, money, plural } from "./format.js";
import { command, meter, problem, stack, stateWord } from "./widgets.js";

export function stripView(store) {
  const parts = {
    state: h("span", { class: "state-box" }), name: h("div", { class: "strip-name" }), controls: h("div", { class: "controls" }),
    bar: h("div"), legend: h("div", { class: "legend" }), facts: h("dl", { class: "facts" }), below: h("div"),
  };
  const element = h("section", { class: "strip", "aria-label": "The run" },
    h("div", { class: "strip-top" }, parts.name, parts.state, parts.controls), parts.bar, parts.legend, parts.facts);
  const box = h("div", {}, element, parts.below);
  const shown = {};
  const once = (name, value, draw) => {
    const key = JSON.stringify(value);
    if (shown[name] === key) return;
    shown[name] = key;
    draw();
  };
  const update = () => {
    const strip = store.strip;
    once("name", [strip.workflow, strip.project, strip.run], () => setChildren(parts.name, nameOf(strip)));
    once("state", [strip.words, strip.kind, strip.detail], () => setChildren(parts.state, stateOf(strip)));
    once("controls", [strip.can_control, strip.state, strip.parallel, strip.budget_usd], () => keepingFocus(parts.controls, () => setChildren(parts.controls, controlsOf(store))));
    once("bar", [strip.counts, strip.running, strip.pending, strip.waiting, strip.total], () => {
      const pieces = piecesOf(strip);
      setChildren(parts.bar, stack(pieces, strip.total));
      setChildren(parts.legend, pieces.filter((piece) => piece.number).map((piece) => h("span", { class: "key", data: { kind: piece.kind }, text: piece.words })));
    });
    once("below", [strip.problem, strip.state, strip.resume_command], () => setChildren(parts.below, belowOf(strip)));
    tick();
  };
  const tick = () => {
    const facts = factsOf(store);
    once("facts", facts.map(({ name, value, more, kind, part }) => [name, value, more, kind, part]), () => setChildren(parts.facts, facts.map(factView)));
  };
  return { element: box, update, tick };
}

function nameOf(strip) {
  return [
    h("h1", {}, h("span", { text: strip.project || "run" }), h("span", { class: "dim", text: strip.workflow })),
    h("div", { class: "where" }, h("span", { class: "mono", text: strip.run }), ` · started ${moment(strip.started)}`,
      h("span", { class: "more", text: [strip.models.join(", "), strip.project_dir].filter(Boolean).map((text) => ` · ${text}`).join("") })),
  ];
}

function stateOf(strip) {
  return [stateWord(strip.kind, strip.words, "state-word"), strip.detail ? h("span", { class: "dim state-detail", text: ` ${strip.detail}` }) : null];
}

function controlsOf(store) {
  const { strip, run } = store;
  if (!strip.can_control) return [];
  const isPaused = strip.state === "paused";
  const { wanted, most } = strip.parallel;
  return [
    isPaused ? button("Resume", () => resume(run), { class: "primary", data: { act: "resume" } }) : button("Pause", () => pause(run), { data: { act: "pause" }, disabled: strip.state === "stopping" }),
    h("span", { class: "stepper", role: "group", "aria-label": `At most ${wanted} items at once` },
      button("−", () => parallel(run, wanted - 1), { class: "square", "aria-label": "One item fewer at once", disabled: wanted <= 1 }),
      h("span", { class: "value" }, String(wanted), h("span", { class: "unit", text: " at once" })),
      button("+", () => parallel(run, wanted + 1), { class: "square", "aria-label": "One item more at once", disabled: wanted >= most })),
    strip.budget_usd === null ? null : button("Budget…", () => changeBudget(store)),
    button("Stop…", () => stopRun(run), { class: "danger", disabled: strip.state === "stopping", data: { act: "stop" } }),
  ];
}

/** How its items have ended, as pieces of a bar. */
export function endsOf({ counts }) {
  return counts.map(({ number, kind, words, outcome }) => ({ number, words, kind: outcome === "skipped" ? "skip" : kind }));
}

function piecesOf(strip) {
  const waiting = Math.min(strip.waiting, strip.running);
  const running = strip.running - waiting;
  const underWay = strip.is_live
    ? [{ number: running, kind: "run", words: `${running} under way` }, { number: waiting, kind: "wait", words: `${waiting} waiting` }]
    : [{ number: strip.running, kind: "warn", words: `${strip.running} not ended` }];
  return [...endsOf(strip), ...underWay, { number: strip.pending, kind: "dim", words: `${strip.pending.toLocaleString("en")} not started` }];
}

function factsOf(store) {
  const strip = store.strip;
  const now = store.now();
  return [elapsedFact(strip, now), etaFact(strip), spentFact(strip), parallelFact(strip), keysFact(strip, now), limitsFact(strip)].filter(Boolean);
}

function elapsedFact(strip, now) {
  const seconds = strip.is_live ? Math.max(now, strip.elapsed) : strip.elapsed;
  return { name: strip.is_live ? "Elapsed" : "Took", value: strip.is_live ? clock(seconds) : duration(seconds), more: strip.usual?.words ?? "" };
}

function etaFact(strip) {
  const ended = strip.ended.toLocaleString("en");
  const done = `${ended} of ${plural(strip.total, "item")} ended`;
  if (strip.eta) return { name: "Time left", value: strip.eta.words, more: done };
  return { name: "Items", value: `${ended} of ${strip.total.toLocaleString("en")}`, more: strip.is_live && strip.ended < strip.total ? "time left: not known yet" : "" };
}

function spentFact(strip) {
  const cap = strip.budget_usd;
  const part = cap ? strip.spent_usd / cap : null;
  const burn = strip.burn_usd_per_hour ? `${money(strip.burn_usd_per_hour)} per hour` : "";
  const tokens = strip.tokens ? `${count(strip.tokens)} tokens` : "";
  return {
    name: "Spent", value: cap === null ? money(strip.spent_usd) : `${money(strip.spent_usd)} of ${money(cap)}`,
    more: [burn, tokens].filter(Boolean).join(" · "), part, kind: part >= 1 ? "bad" : part >= 0.8 ? "warn" : "",
  };
}

function parallelFact(strip) {
  const { now, wanted, why, effective } = strip.parallel;
  return { name: "At once", value: strip.is_live && now !== wanted ? `${now} of ${wanted}` : String(wanted), more: [why, effective].filter(Boolean).join(" · "), kind: strip.is_live && now < wanted && why ? "warn" : "" };
}

function keysFact(strip, now) {
  if (!strip.keys) return null;
  const { free, held, cooling, rejected, next_at: nextAt } = strip.keys;
  if (!strip.is_live) return { name: "Keys", value: String(free + held + cooling + rejected), more: rejected ? `${rejected} rejected` : "", kind: rejected ? "bad" : "" };
  const left = cooling && nextAt !== null ? nextAt - now : null;
  const more = [
    held ? `${held} held` : "", cooling ? `${cooling} cooling${left === null ? "" : `, next in ${countdown(left)}`}` : "", rejected ? `${rejected} rejected` : "",
  ];
  return {
    name: "Keys", value: `${free} free`, more: more.filter(Boolean).join(" · "),
    kind: rejected ? "bad" : cooling && !free && !held ? "warn" : "",
  };
}

function limitsFact(strip) {
  const number = strip.limited;
  if (!strip.keys && !number) return null;
  if (!strip.is_live) return { name: "429s", value: String(number), more: "", kind: "" };
  return { name: "429s, last 5 min", value: String(number), more: number ? "the provider asks for a slower pace" : "", kind: number ? "warn" : "" };
}

function factView({ name, value, more, kind = "", part = null }) {
  return h("div", { class: kind }, h("dt", { text: name }), h("dd", {}, value, part === null ? null : meter(part, kind), more ? h("small", { text: more }) : null));
}

function belowOf(strip) {
  const told = [];
  if (strip.problem) told.push(problem(strip.problem, { kind: "warn" }));
  if (!strip.is_live && strip.resume_command) {
    told.push(h("p", { class: "resume-line" }, "Resume with: ", command(strip.resume_command)));
  }
  return told;
}
