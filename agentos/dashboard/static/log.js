// The log of an item: follow, filter, first error, long lines folded, colours; what is selected copies as text.

import { get, runPath } from "./api.js";
import { nodesOf, withoutColour } from "./ansi.js";
import { button, h, icon, setChildren, setText } from "./dom.js";
import { bytes, count } from "./format.js";
import { copyButton, pressed } from "./widgets.js";

const FIRST_BYTES = 262_144;
const PIECE_BYTES = 524_288;
const MOST_SEARCHED_BYTES = 16 * 1024 * 1024;
const [BLOCK_LINES, MOST_LINES, FOLD_AT, UNFOLD_STEP] = [200, 40_000, 500, 20_000];
const ERROR = /\b(?:error|exception|traceback|fatal|panic|failed)\b|^E\s{2,}/i;

export function logView(store, itemId) {
  const lines = []; // {text, element, style}
  const body = h("div", { class: "log wraps", role: "log", tabindex: "0", "aria-label": "Log", "aria-live": "off" });
  const earlier = h("div", { class: "log-note" });
  const note = h("div", { class: "follow-line", role: "status" });
  const filter = h("input", { type: "search", placeholder: "Filter lines", "aria-label": "Filter lines of the log" });
  const state = { offset: 0, next: 0, size: 0, partial: "", style: undefined, isFollowing: true, dropped: 0, block: null, partialLine: null, isLoaded: false, isCut: false, isOver: false };

  const followButton = button("Follow", () => follow(!state.isFollowing), { "aria-pressed": "true", title: "Follow (f)" });
  const wrapButton = button("Wrap", () => {
    body.classList.toggle("wraps");
    pressed(wrapButton, body.classList.contains("wraps"));
  }, { "aria-pressed": "true" });
  const errorButton = button("First error", () => firstError(), { title: "First error (e)" });
  const element = h("div", {},
    h("div", { class: "log-tools" }, h("div", { class: "search" }, icon("search"), filter), followButton, wrapButton, errorButton,
      copyButton(() => shownText(), "Copy the lines that are shown", "Copy")),
    earlier, body, note);

  const follow = (isFollowing) => {
    state.isFollowing = isFollowing;
    pressed(followButton, isFollowing);
    if (isFollowing) toEnd();
  };
  const toEnd = () => body.scrollTo(body.scrollLeft, body.scrollHeight);
  const isAtEnd = () => body.scrollHeight - body.scrollTop - body.clientHeight < 60;

  const makeLine = (text, style) => {
    const line = { text, style, element: h("span", { class: "line" }), shown: FOLD_AT };
    fillLine(line);
    return line;
  };
  const fillLine = (line) => {
    const isLong = line.text.length > line.shown;
    const { nodes, style } = nodesOf(isLong ? line.text.slice(0, line.shown) : line.text, line.style);
    line.after = isLong ? undefined : style;
    const rest = line.text.length - line.shown;
    const unfold = isLong ? button(`… ${count(rest)} more characters`, () => {
      line.shown += UNFOLD_STEP;
      fillLine(line);
    }, { class: "fold" }) : null;
    // Whole lines end with a newline, so that what is copied has the lines it had.
    setChildren(line.element, nodes, unfold, "\n");
    const plain = withoutColour(line.text);
    line.element.classList.toggle("is-error", ERROR.test(plain.slice(0, 2000)));
  };
  const matches = (line) => !filter.value || withoutColour(line.text).toLowerCase().includes(filter.value.toLowerCase());

  const addLine = (text) => {
    const line = makeLine(text, state.style);
    state.style = line.after;
    if (!state.block || state.block.children.length >= BLOCK_LINES) {
      state.block = h("div", { class: "log-block" });
      body.append(state.block);
    }
    lines.push(line);
    if (state.offset === 0) line.element.dataset.number = String(lines.length + state.dropped);
    line.element.hidden = !matches(line);
    state.block.append(line.element);
    return line;
  };
  const addText = (text) => {
    const pieces = (state.partial + text).split("\n");
    state.partial = pieces.pop();
    if (state.partialLine && pieces.length) {
      state.partialLine.text = pieces.shift();
      fillLine(state.partialLine);
      state.style = state.partialLine.after;
      state.partialLine = null;
    }
    pieces.forEach(addLine);
    if (state.partial) {
      if (!state.partialLine) state.partialLine = addLine(state.partial);
      else {
        state.partialLine.text = state.partial;
        fillLine(state.partialLine);
      }
    }
    while (lines.length > MOST_LINES && body.children.length > 1) {
      state.dropped += body.firstElementChild.children.length;
      lines.splice(0, body.firstElementChild.children.length);
      body.firstElementChild.remove();
    }
  };

  const say = () => {
    const parts = [`${count(lines.length)} lines`, bytes(state.size)];
    if (state.isCut) parts.push(`only its first ${bytes(MOST_SEARCHED_BYTES)} are shown`);
    if (filter.value) parts.unshift(`${count(lines.filter((line) => !line.element.hidden).length)} match`);
    setText(note, state.isLoaded && !lines.length ? "The log is empty so far." : parts.join(" · "));
    body.hidden = !lines.length;
    earlier.hidden = state.offset === 0 && !state.dropped;
    setChildren(earlier, state.file
      ? [`The beginning (${bytes(state.offset)}) is not in this report. It is in `, h("a", { class: "mono", href: state.file.address, text: state.file.path })]
      : state.dropped
      ? `The first ${count(state.dropped)} lines are not kept on the page: they are in the file.`
      : [`The beginning (${bytes(state.offset)}) is not loaded. `, button("Load it", () => {
        follow(false);
        whole();
      }, { class: "link" })]);
  };

  const load = async () => {
    const piece = await get(runPath(store.run, "/log"), { id: itemId, offset: -FIRST_BYTES, limit: FIRST_BYTES });
    if (state.isOver) return;
    [state.offset, state.next, state.size, state.isLoaded] = [piece.offset, piece.next, piece.size, true];
    state.file = piece.file;
    addText(piece.text);
    say();
    listen();
    if (state.isFollowing) requestAnimationFrame(toEnd);
  };
  const listen = () => {
    if (store.strip.is_live) store.follow({ item: itemId, next: () => state.next });
  };
  /** From its first byte, in pieces, up to a bound that a page can hold. What is written meanwhile is asked for afterwards. */
  const loadAll = async () => {
    if (state.offset === 0 || state.file || !state.isLoaded) return;
    lines.length = 0;
    body.replaceChildren();
    Object.assign(state, { offset: 0, partial: "", style: undefined, block: null, partialLine: null, dropped: 0, isLoaded: false });
    let at = 0;
    try {
      while (at < Math.min(state.size, MOST_SEARCHED_BYTES)) {
        const piece = await get(runPath(store.run, "/log"), { id: itemId, offset: at, limit: PIECE_BYTES });
        if (state.isOver) return;
        state.size = piece.size;
        if (piece.next <= at) break;
        at = piece.next;
        addText(piece.text);
      }
    } finally {
      Object.assign(state, { next: at, isLoaded: true, isCut: at >= MOST_SEARCHED_BYTES && at < state.size });
    }
    say();
    if (state.isCut) store.follow(null);
    else listen();
  };
  const whole = () => loadAll().catch((error) => setText(note, error.message));
  const firstError = async () => {
    await whole();
    const found = lines.find((line) => line.element.classList.contains("is-error"));
    if (!found) return setText(note, state.file || state.dropped || state.isCut ? "No line of those here speaks of an error." : "No line speaks of an error.");
    filter.value = "";
    filterLines();
    follow(false);
    body.querySelector(".is-found")?.classList.remove("is-found");
    found.element.classList.add("is-found");
    found.element.scrollIntoView({ block: "center" });
    return undefined;
  };
  const filterLines = () => {
    for (const line of lines) line.element.hidden = !matches(line);
    say();
  };
  const shownText = () => lines.filter((line) => !line.element.hidden).map((line) => withoutColour(line.text)).join("\n");

  filter.addEventListener("input", filterLines);
  const onLog = ({ detail: piece }) => {
    if (piece.item !== itemId || piece.next <= state.next || !state.isLoaded) return;
    [state.next, state.size] = [piece.next, Math.max(state.size, piece.next)];
    addText(piece.text);
    say();
    if (state.isFollowing) toEnd();
  };
  /** Who scrolls up wants to read: the end is not forced on them. At the end again, it follows again. */
  const onScroll = () => {
    if (state.isFollowing === isAtEnd() || !state.isLoaded) return;
    state.isFollowing = isAtEnd();
    pressed(followButton, state.isFollowing);
  };
  let wheel = 0;
  body.addEventListener("wheel", () => (wheel = requestAnimationFrame(onScroll)), { passive: true });
  body.addEventListener("touchmove", onScroll, { passive: true });
  body.addEventListener("keyup", onScroll);
  body.addEventListener("pointerdown", (event) => event.offsetX >= body.clientWidth && follow(false)); // The scroll bar.

  return {
    element,
    load,
    connect() {
      store.addEventListener("log", onLog);
    },
    destroy() {
      state.isOver = true;
      store.removeEventListener("log", onLog);
      cancelAnimationFrame(wheel);
      if (store.log?.item === itemId) store.follow(null);
    },
    keys: { f: () => follow(!state.isFollowing), e: firstError, "/": () => filter.focus() },
  };
}
