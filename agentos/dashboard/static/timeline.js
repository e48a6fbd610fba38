// The timeline: one lane per slot, blocks by node, waits over them by cause. It shows where the time went.

import { itemHash } from "./acts.js";
import { button, h, setChildren, setText } from "./dom.js";
import { clock, duration, percent } from "./format.js";
import { colour, forgetColours, isDark } from "./theme.js";
import { announce } from "./widgets.js";

const [LABELS, AXIS, LANE, PAD, LEAST_LABEL] = [64, 26, 34, 4, 44];
const NODE_HUES = [214, 168, 205, 140, 188, 222, 120, 178]; // From green to blue: waits have the other colours.
const WAITS = ["start", "busy", "limited", "budget", "paused"];
const WAIT_COLOURS = { start: "gap-startup", busy: "gap-key", limited: "gap-limit", budget: "gap-budget", paused: "gap-paused" };
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400];

/** How long the slots were at work and what they waited for, in seconds. Pure. */
export function timeByKind(blocks, now) {
  const sums = new Map();
  let inNodes = 0;
  for (const block of blocks) {
    const seconds = Math.max(0, (block.end ?? now) - block.start);
    sums.set(block.kind, (sums.get(block.kind) ?? 0) + seconds);
    if (block.kind !== "node" && block.node) inNodes += seconds;
  }
  if (sums.has("node")) sums.set("node", Math.max(0, sums.get("node") - inNodes));
  return sums;
}

export function timelineView(store) {
  const canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": "Timeline", "aria-describedby": "timeline-sums" });
  const tip = h("div", { class: "tip", hidden: true });
  const box = h("div", { class: "timeline-box" }, canvas, tip);
  const nodesLegend = h("div", { class: "swatches" });
  const sums = h("div", { id: "timeline-sums" });
  const said = h("p", { class: "empty-line" });
  const view = { from: 0, to: null }; // Seconds in sight; `to` null: up to now.
  let picked = null;
  let frame = 0;

  const zoom = (factor, around = null) => {
    const [from, to] = range();
    const middle = around ?? (from + to) / 2;
    const span = Math.max(0.5, (to - from) * factor);
    const now = Math.max(1, store.now());
    if (span >= now) [view.from, view.to] = [0, null];
    else {
      view.from = Math.max(0, Math.min(now - span, middle - (middle - from) * (span / (to - from))));
      view.to = view.from + span;
    }
    draw();
  };
  const pan = (seconds) => {
    if (view.to === null) return;
    const span = view.to - view.from;
    view.from = Math.max(0, Math.min(Math.max(1, store.now()) - span, view.from + seconds));
    view.to = view.from + span;
    draw();
  };
  const range = () => [view.from, view.to ?? Math.max(1, store.now())];
  const element = h("div", {},
    h("div", { class: "tools" }, said, h("span", { class: "spring" }),
      button("−", () => zoom(1.6), { class: "square", "aria-label": "Zoom out" }),
      button("+", () => zoom(1 / 1.6), { class: "square", "aria-label": "Zoom in" }),
      button("Fit", () => {
        [view.from, view.to] = [0, null];
        draw();
      })),
    box, nodesLegend, sums);

  const blocksOf = () => [...store.blocks.values()];
  const slotCount = () => Math.max(store.slots ?? 0, store.strip?.parallel?.wanted ?? 0, 1, ...blocksOf().map((block) => block.slot + 1));
  const xOf = (seconds) => {
    const [from, to] = range();
    return LABELS + ((seconds - from) / (to - from)) * (canvas.clientWidth - LABELS);
  };
  const secondsAt = (x) => {
    const [from, to] = range();
    return from + ((x - LABELS) / (canvas.clientWidth - LABELS)) * (to - from);
  };

  const draw = () => {
    frame = 0;
    forgetColours();
    const lanes = slotCount();
    const [width, height] = [box.clientWidth, AXIS + lanes * LANE + PAD];
    if (!width) return;
    const scale = window.devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    drawLanes(pen, lanes, width);
    drawAxis(pen, range(), xOf, width, height);
    const now = store.now();
    const order = { node: 0, start: 1 };
    const blocks = blocksOf().sort((a, b) => (order[a.kind] ?? 2) - (order[b.kind] ?? 2));
    for (const block of blocks) drawBlock(pen, block, xOf, now, width, store.stages, picked);
    const isRoomy = (block) => block.kind === "node" && xOf(block.end ?? now) - xOf(block.start) > LEAST_LABEL;
    for (const block of blocks.filter(isRoomy)) drawLabel(pen, block, freeSpan(block, blocks, now), xOf, width);
  };
  const wish = () => {
    if (!frame) frame = requestAnimationFrame(draw);
  };

  const update = () => {
    if (!store.hasBlocks) return;
    const blocks = blocksOf();
    box.hidden = !blocks.length;
    canvas.setAttribute("aria-label", `Timeline of ${slotCount()} slots`);
    const byKind = timeByKind(blocks, store.now());
    const slotSeconds = slotCount() * Math.max(store.now(), 0.001);
    const atWork = (byKind.get("node") ?? 0) / Math.max(store.now(), 0.001);
    setText(said, blocks.length ? `On average, ${atWork.toFixed(1)} of ${slotCount()} slots were at work.` : "Nothing has started yet.");
    const seen = [...new Set(blocks.filter((block) => block.kind === "node").map((block) => block.node))];
    setChildren(nodesLegend, seen.map((node) => {
      const swatch = h("i");
      swatch.style.backgroundColor = nodeColour(node, store.stages);
      return h("span", {}, swatch, node);
    }));
    setChildren(sums, sumsTable(byKind, slotSeconds, store.legend ?? []));
    wish();
  };

  const hit = (x, y) => {
    const slot = Math.floor((y - AXIS) / LANE);
    const at = secondsAt(x);
    const near = ((range()[1] - range()[0]) / Math.max(1, canvas.clientWidth)) * 3;
    const found = blocksOf().filter((block) => block.slot === slot && block.start - near <= at && (block.end ?? store.now()) + near >= at);
    return found.sort((a, b) => Number(a.kind === "node") - Number(b.kind === "node"))[0] ?? null;
  };
  const show = (block, x, y) => {
    picked = block?.id ?? null;
    tip.hidden = !block;
    if (block) {
      const end = block.end ?? store.now();
      setChildren(tip, h("b", { text: block.label }), block.words || `${block.node}, ${duration(end - block.start)}`,
        h("div", { class: "dim", text: `${clock(block.start)} to ${block.end === null ? "now" : clock(end)}` }));
      tip.style.left = `${Math.max(4, Math.min(x + 12, box.clientWidth - 240))}px`;
      tip.style.top = `${Math.min(y + 14, Math.max(0, canvas.clientHeight - 70))}px`;
    }
    wish();
  };
  const pointers = new Map();
  let pinch = 0;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, { x: event.offsetX, moved: 0 });
  });
  canvas.addEventListener("pointermove", (event) => {
    const held = pointers.get(event.pointerId);
    if (!held) return show(hit(event.offsetX, event.offsetY), event.offsetX, event.offsetY);
    const step = held.x - event.offsetX;
    held.moved += Math.abs(step);
    held.x = event.offsetX;
    if (pointers.size === 2) {
      const [one, other] = [...pointers.values()];
      const distance = Math.abs(one.x - other.x);
      if (pinch && distance) zoom(pinch / distance, secondsAt((one.x + other.x) / 2));
      pinch = distance;
    } else if (held.moved > 3) {
      canvas.classList.add("is-dragged");
      const [from, to] = range();
      pan((step / (canvas.clientWidth - LABELS)) * (to - from));
    }
    return undefined;
  });
  const letGo = (event) => {
    const held = pointers.get(event.pointerId);
    pointers.delete(event.pointerId);
    pinch = 0;
    canvas.classList.remove("is-dragged");
    if (event.type !== "pointerup" || !held || held.moved > 3) return;
    const block = hit(event.offsetX, event.offsetY);
    if (block) location.hash = itemHash(store.run, block.item);
  };
  canvas.addEventListener("pointerup", letGo);
  canvas.addEventListener("pointercancel", letGo);
  canvas.addEventListener("pointerleave", () => show(null));
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return;
    event.preventDefault();
    if (event.ctrlKey || event.metaKey) zoom(Math.exp(event.deltaY * 0.004), secondsAt(event.offsetX));
    else {
      const [from, to] = range();
      pan((event.deltaX / canvas.clientWidth) * (to - from));
    }
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const inOrder = blocksOf().filter((block) => block.kind === "node").sort((a, b) => a.slot - b.slot || a.start - b.start);
    const place = inOrder.findIndex((block) => block.id === picked);
    const doings = {
      "+": () => zoom(1 / 1.6), "=": () => zoom(1 / 1.6), "-": () => zoom(1.6), 0: () => zoom(1e9),
      ArrowRight: () => pick(inOrder[Math.min(inOrder.length - 1, place + 1)]), ArrowLeft: () => pick(inOrder[Math.max(0, place - 1)]),
      Enter: () => place >= 0 && (location.hash = itemHash(store.run, inOrder[place].item)),
    };
    if (!doings[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    doings[event.key]();
  });
  const pick = (block) => {
    if (!block) return;
    const [from, to] = range();
    if (block.start < from || block.start > to) pan(block.start - (from + to) / 2);
    show(block, Math.max(LABELS, xOf(block.start)), AXIS + block.slot * LANE + LANE / 2);
    announce(`${block.label}: ${block.words || block.node}. Enter opens the item`);
  };
  const resized = new ResizeObserver(wish);
  const connect = () => {
    resized.observe(box);
    document.addEventListener("themechange", wish);
  };
  const destroy = () => {
    resized.disconnect();
    document.removeEventListener("themechange", wish);
    if (frame) cancelAnimationFrame(frame);
  };
  return { element, update, tick: () => (store.strip?.is_live ? wish() : undefined), connect, destroy, keys: {} };
}

function nodeColour(node, stages) {
  const place = stages.indexOf(node);
  const number = place >= 0 ? place : [...node].reduce((sum, letter) => sum + letter.charCodeAt(0), 0);
  return `hsl(${NODE_HUES[number % NODE_HUES.length]} ${isDark() ? "42% 50%" : "52% 64%"})`;
}

/** The longest stretch of a block without a wait in it. Pure. */
export function freeSpan(block, blocks, now) {
  const end = block.end ?? now;
  if (block.kind !== "node") return [block.start, end];
  const waits = blocks.filter((one) => WAITS.includes(one.kind) && one.slot === block.slot && one.start < end && (one.end ?? now) > block.start).sort((a, b) => a.start - b.start);
  let [best, from] = [[block.start, block.start], block.start];
  for (const stretch of [...waits.map((wait) => [wait.start, wait.end ?? now]), [end, end]]) {
    if (stretch[0] - from > best[1] - best[0]) best = [from, stretch[0]];
    from = Math.max(from, stretch[1]);
  }
  return best;
}

function drawLanes(pen, lanes, width) {
  for (let lane = 0; lane < lanes; lane += 1) {
    const top = AXIS + lane * LANE;
    pen.fillStyle = colour("sunken");
    pen.beginPath();
    pen.roundRect(LABELS, top + PAD, width - LABELS - PAD, LANE - PAD * 2, 4);
    pen.fill();
    pen.fillStyle = colour("dim");
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.fillText(`Slot ${lane + 1}`, 12, top + LANE / 2);
  }
}

function drawAxis(pen, [from, to], xOf, width, height) {
  const wanted = (to - from) / Math.max(2, (width - LABELS) / 110);
  const step = STEPS.find((one) => one >= wanted) ?? STEPS.at(-1);
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    const x = Math.round(xOf(at)) + 0.5;
    pen.strokeStyle = colour("line");
    pen.beginPath();
    pen.moveTo(x, AXIS - 4);
    pen.lineTo(x, height);
    pen.stroke();
    if (x < width - 36) {
      pen.fillStyle = colour("faint");
      pen.fillText(clock(at), x + 4, AXIS / 2);
    }
  }
}

function drawBlock(pen, block, xOf, now, width, stages, picked) {
  const left = Math.max(LABELS, xOf(block.start));
  const right = Math.min(width - PAD, xOf(block.end ?? now));
  if (right < LABELS || left > width) return;
  const top = AXIS + block.slot * LANE + PAD;
  const wide = Math.max(1.5, right - left - (block.kind === "node" ? 1 : 0));
  pen.beginPath();
  pen.roundRect(left, top, wide, LANE - PAD * 2, Math.min(3, wide / 2));
  if (block.kind === "node") {
    pen.fillStyle = nodeColour(block.node, stages);
    pen.fill();
  } else hatch(pen, colour(WAIT_COLOURS[block.kind] ?? "gap-idle"), left, top, wide);
  if (block.id === picked) {
    pen.strokeStyle = colour("text");
    pen.lineWidth = 1.5;
    pen.stroke();
    pen.lineWidth = 1;
  }
}

/** Time in which nothing was done looks empty: stripes of its cause's colour. The path is the pen's. */
function hatch(pen, stripes, left, top, wide) {
  const tall = LANE - PAD * 2;
  pen.save();
  pen.clip();
  pen.fillStyle = colour("surface");
  pen.fillRect(left, top, wide, tall);
  pen.fillStyle = stripes;
  pen.globalAlpha = 0.3;
  pen.fillRect(left, top, wide, tall);
  pen.globalAlpha = 1;
  pen.strokeStyle = stripes;
  pen.lineWidth = 2;
  pen.beginPath();
  const first = left - (left % 7) - tall;
  for (let x = first; x < left + wide; x += 7) {
    pen.moveTo(x, top + tall);
    pen.lineTo(x + tall, top);
  }
  pen.stroke();
  pen.restore();
  pen.lineWidth = 1;
  pen.beginPath();
  pen.roundRect(left, top, wide, tall, Math.min(3, wide / 2));
}

/** At the work of a block, not over its waits. */
function drawLabel(pen, block, [start, end], xOf, width) {
  const left = Math.max(LABELS, xOf(start));
  const wide = Math.min(width - PAD, xOf(end)) - left;
  const top = AXIS + block.slot * LANE + PAD;
  if (wide > LEAST_LABEL) {
    pen.save();
    pen.beginPath();
    pen.rect(left, top, wide - 4, LANE);
    pen.clip();
    pen.fillStyle = "#10151c";
    pen.font = "600 11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.fillText(`${block.label} ${block.node}`, left + 6, top + (LANE - PAD * 2) / 2);
    pen.restore();
  }
}

/** The same in numbers: for who cannot see the picture, and for who wants to know. */
function sumsTable(byKind, slotSeconds, legend) {
  const words = new Map(legend.map((entry) => [entry.kind, entry.words]));
  const swatches = { node: "g-work", start: "g-startup", busy: "g-key", limited: "g-limit", budget: "g-budget", paused: "g-paused" };
  const told = ["node", ...WAITS].filter((kind) => byKind.get(kind) > 0);
  const used = told.reduce((sum, kind) => sum + byKind.get(kind), 0);
  const rows = told.map((kind) => sumRow(swatches[kind], words.get(kind) ?? kind, byKind.get(kind), slotSeconds));
  if (slotSeconds > used) rows.push(sumRow("g-idle", "no item in the slot", slotSeconds - used, slotSeconds));
  return h("div", { class: "table-scroll sums" }, h("table", { class: "plain" },
    h("caption", { class: "unseen", text: "Where the time of the slots went" }),
    h("thead", {}, h("tr", {}, h("th", { scope: "col", text: "Where the time went" }), h("th", { scope: "col", class: "n", text: "Slot time" }), h("th", { scope: "col", class: "n", text: "Share" }))),
    h("tbody", {}, rows)));
}

function sumRow(swatch, words, seconds, all) {
  return h("tr", {}, h("th", { scope: "row" }, h("span", { class: "swatch" }, h("i", { class: swatch })), words),
    h("td", { class: "n", text: duration(seconds) }), h("td", { class: "n", text: percent(seconds / all) }));
}
