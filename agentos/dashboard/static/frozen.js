// A report: the page with its answers beside it, in the same file. Without them, it is the page of a server.

import { Refused } from "./refused.js";

const box = document.querySelector("#frozen");
const frozen = box ? JSON.parse(box.textContent) : null;

export const isFrozen = frozen !== null;
export const frozenRun = frozen?.run ?? "";
export const frozenAt = frozen?.made ?? "";

/** Whether something is there to look at: of a report, only what was put into it. */
export function isThere(path) {
  return !isFrozen || JSON.stringify([path]) in frozen.answers;
}

/** The same of a run's own page. */
export function isRunThere(run) {
  return !isFrozen || run === frozenRun;
}

/** What the server would have answered when the report was made. */
export async function frozenAnswer(path, { offset, limit, ...asked }) {
  const known = Object.entries(asked).filter(([, value]) => value !== undefined && value !== null && value !== "").sort();
  const answer = frozen.answers[JSON.stringify([path, ...known])];
  if (answer === undefined) {
    throw new Refused(404, { error: "This is not in the report.", hint: "It was too long for one file. On the machine of the run, see it with:", command: "agentos dashboard" });
  }
  return answer;
}
