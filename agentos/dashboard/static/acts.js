// What buttons do: the acts of `agentos ctl` and `agentos review`, asked of the server.

import { get, post, runPath } from "./api.js";
import { button, h, icon } from "./dom.js";
import { money } from "./format.js";
import { sanitisedDocument } from "./sanitised.js";
import { copyButton, dialog, field, toast } from "./widgets.js";

export function itemHash(run, item, tab = "") {
  return `#/runs/${encodeURIComponent(run)}/items/${encodeURIComponent(item)}${tab ? `/${tab}` : ""}`;
}

async function control(run, body, done) {
  await post(runPath(run, "/control"), body);
  if (done) toast(done);
}

/** Without a question first: what can be taken back. */
async function atOnce(run, body, done) {
  try {
    await control(run, body, done);
  } catch (error) {
    toast(error.message, "bad", { hint: error.hint, commandText: error.command });
  }
}

export const pause = (run) => atOnce(run, { act: "pause" });
export const resume = (run) => atOnce(run, { act: "resume" });
const retry = (run, item) => atOnce(run, { act: "retry", item: item.id }, `${item.label} is queued again.`);
export const parallel = (run, value) => atOnce(run, { act: "parallel", value });

function reasonField() {
  const input = h("input", { type: "text", autocomplete: "off", maxlength: "500" });
  return { input, box: field("Reason (optional; it is kept in the audit)", input) };
}

export function stopRun(run) {
  const reason = reasonField();
  dialog({
    title: "Stop the run?", submit: "Stop the run", isDangerous: true,
    body: [h("p", { text: "Running items stop at the next safe point and keep their checkpoints. The same command resumes them." }), reason.box],
    act: () => control(run, { act: "stop", reason: reason.input.value }, "The run is stopping."),
  });
}

function stopItem(run, item) {
  const reason = reasonField();
  dialog({
    title: `Stop ${item.label}?`, submit: "Stop this item", isDangerous: true,
    body: [h("p", { text: "It stops at the next safe point and keeps its checkpoint. The other items continue." }), reason.box],
    act: () => control(run, { act: "stop", item: item.id, reason: reason.input.value }, `${item.label} stops at the next safe point.`),
  });
}

function skipItem(run, item) {
  const reason = reasonField();
  dialog({
    title: `Skip ${item.label}?`, submit: "Skip this item", isDangerous: true,
    body: [h("p", { text: "It and what depends on it are not done in this run." }), reason.box],
    act: () => control(run, { act: "skip", item: item.id, reason: reason.input.value }, `${item.label} is skipped.`),
  });
}

export function changeBudget(store) {
  const { budget_usd: cap, spent_usd: spent } = store.strip;
  const input = h("input", { type: "number", min: "0", step: "any", required: true, value: String(cap ?? "") });
  dialog({
    title: "Change the budget", submit: "Set the budget",
    body: [field("Budget in US dollars", input, `${money(spent)} is spent${cap === null ? "" : ` of ${money(cap)}`}.`)],
    act: () => control(store.run, { act: "budget", value: Number(input.value) }, `The budget is ${money(Number(input.value))}.`),
  });
}

async function answer(run, item, body) {
  const told = await post(runPath(run, "/review"), { id: item.id, ...body });
  toast(told.words || "The answer is kept.", "good", { commandText: told.command });
  document.dispatchEvent(new CustomEvent("answered", { detail: item.id }));
}

async function reviewOf(run, item) {
  const detail = await get(runPath(run, "/item"), { id: item.id });
  return detail.review ?? {};
}

export async function approve(run, item, known = null) {
  const review = known ?? await orToast(reviewOf(run, item));
  if (!review) return;
  const paper = review.document?.html
    ? sanitisedDocument(review.document.html)
    : h("pre", { class: "prose", text: review.document?.text ?? "" });
  dialog({
    title: `Approve ${item.label}?`, submit: "Approve",
    body: [
      review.text ? h("p", { text: review.text }) : null,
      findings(review),
      review.document ? h("div", { class: "dialog-paper", tabindex: "0", role: "region", "aria-label": "The document" }, paper) : null,
      h("p", { class: "dim", text: "The approval is bound to the document as it is shown here." }),
    ],
    act: () => answer(run, item, { answer: "approve", seen: review.seen }),
  });
}

export async function revise(run, item, known = null) {
  const review = known ?? await orToast(reviewOf(run, item));
  if (!review) return;
  const input = h("textarea", { required: true, maxlength: "20000", placeholder: "What to change" });
  dialog({
    title: `Have ${item.label} revised`, submit: "Send back",
    body: [findings(review), field("What should be changed?", input, "It goes into the prompt of the next revision.")],
    act: () => answer(run, item, { answer: "revise", text: input.value, seen: review.seen }),
  });
}

function findings(review) {
  const found = [...(review.questions ?? []), ...(review.findings ?? [])];
  return found.length ? h("ul", {}, found.map((text) => h("li", { text }))) : null;
}

async function orToast(asked) {
  try {
    return await asked;
  } catch (error) {
    toast(error.message, "bad", { hint: error.hint, commandText: error.command });
    return null;
  }
}

/** The button of an action that the server offers for something. */
export function actionButton(action, { store, item, command = "", review = null, isSmall = true }) {
  const run = store.run;
  const doings = {
    approve: () => approve(run, item, review),
    revise: () => revise(run, item, review),
    retry: () => retry(run, item),
    skip: () => skipItem(run, item),
    stop: () => (item ? stopItem(run, item) : stopRun(run)),
    budget: () => changeBudget(store),
    resume: () => resume(run),
    open: () => { location.hash = itemHash(run, item.id); },
    diff: () => { location.hash = itemHash(run, item.id, "branch"); },
  };
  const looks = [action.primary ? "primary" : action.name === "skip" || action.name === "stop" ? "danger" : "", isSmall ? "small" : ""].join(" ");
  if (action.name === "copy") return copyButton(() => command, `${action.label}: ${command}`, action.label);
  const whom = item?.label ? `${action.label} ${item.label}` : action.label;
  return button([action.name === "diff" ? icon("branch") : null, action.label], doings[action.name], { class: looks, "aria-label": whom, data: { act: action.name } });
}
