// Asking the server. Every answer is JSON; every refusal is a `Refused` with words for people.

import { frozenAnswer, isFrozen } from "./frozen.js";
import { Refused } from "./refused.js";

export const UNREACHABLE = 0;

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  } catch {
    throw new Refused(UNREACHABLE, {
      error: "The page's server does not answer.",
      hint: "It may have been closed. Start it again, and open the address it prints:",
      command: "agentos dashboard",
    });
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, answer);
  return answer;
}

export function get(path, query = {}) {
  if (isFrozen) return frozenAnswer(path, query);
  const chosen = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const words = new URLSearchParams(chosen).toString();
  return ask(words ? `${path}?${words}` : path);
}

export function post(path, body) {
  return ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-AgentOS-Control": "1" },
    body: JSON.stringify(body),
  });
}

export function runPath(run, rest = "") {
  return `/api/runs/${encodeURIComponent(run)}${rest}`;
}
