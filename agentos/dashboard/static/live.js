// What the server sends while the page is open, and what the page knows of one run because of it.

import { get, runPath } from "./api.js";
import { isFrozen } from "./frozen.js";

const RETRY_MS = [500, 1000, 2000, 4000, 8000];
export const SILENT_MS = 20_000; // Something comes every 5 s: a stream that is silent for longer is dead.
const HIDDEN_MS = 60_000; // A browser opens few streams to one server: a tab that nobody sees gives its own back.

/** One stream that comes back by itself. `open()` gives its address, `events` what to do with each kind. */
export class Stream {
  constructor({ open, events, onState, silentMs = null }) {
    this.open = open;
    this.events = events;
    this.onState = onState;
    this.silentMs = silentMs;
    this.tries = 0;
    this.isClosed = true;
    this.whenSeen = () => this.seen();
  }

  start() {
    this.isClosed = false;
    document.addEventListener("visibilitychange", this.whenSeen);
    this.connect();
  }

  stop() {
    this.isClosed = true;
    document.removeEventListener("visibilitychange", this.whenSeen);
    this.drop();
  }

  /** With another address: what has come so far is not asked for again. */
  restart() {
    if (this.isClosed) return;
    this.drop();
    this.connect();
  }

  drop() {
    clearTimeout(this.timer);
    clearTimeout(this.hiddenTimer);
    clearTimeout(this.silenceTimer);
    this.source?.close();
    this.source = null;
  }

  connect() {
    const source = new EventSource(this.open());
    this.source = source;
    this.listen();
    source.addEventListener("open", () => this.heard());
    source.addEventListener("error", () => this.failed(source));
    for (const [name, act] of Object.entries(this.events)) {
      source.addEventListener(name, (event) => {
        this.heard();
        act(JSON.parse(event.data));
      });
    }
    this.seen();
  }

  /** From now on it may be silent for so long: a sleeping machine or a frozen server closes no connection. */
  listen() {
    clearTimeout(this.silenceTimer);
    const source = this.source;
    if (this.silentMs) this.silenceTimer = setTimeout(() => this.failed(source), this.silentMs);
  }

  heard() {
    this.listen();
    this.tries = 0;
    this.onState("live");
  }

  failed(source) {
    if (source !== this.source) return;
    clearTimeout(this.silenceTimer);
    source.close();
    this.source = null;
    this.onState(this.tries ? "lost" : "connecting");
    const wait = RETRY_MS[Math.min(this.tries, RETRY_MS.length - 1)];
    this.tries += 1;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.connect(), wait);
  }

  retryNow() {
    if (this.source || this.isClosed) return;
    clearTimeout(this.timer);
    this.connect();
  }

  seen() {
    clearTimeout(this.hiddenTimer);
    if (document.hidden) this.hiddenTimer = setTimeout(() => this.drop(), HIDDEN_MS);
    else if (!this.source) this.restart();
  }
}

/** What is known of one run. Listeners hear `change` after each patch, `log` for each piece of the log that is followed. */
export class RunStore extends EventTarget {
  constructor(run, onState) {
    super();
    this.run = run;
    this.items = new Map();
    this.blocks = new Map();
    this.notes = new Map();
    this.keys = [];
    this.needs = [];
    this.stages = [];
    this.strip = null;
    this.notice = null;
    this.seq = 0;
    this.hasBlocks = false;
    this.log = null;
    this.onState = onState;
    this.whenAnswered = () => this.lookAgain().catch(() => {}); // The answer is kept; the list shows it later.
    this.stream = new Stream({
      open: () => this.address(),
      silentMs: SILENT_MS,
      onState: (state) => this.onState(state),
      events: {
        patch: (patch) => this.apply(patch),
        snapshot: (whole) => this.replace(whole),
        log: (piece) => this.dispatchEvent(new CustomEvent("log", { detail: piece })),
        end: () => this.ended(),
      },
    });
  }

  /** Asked once, however many wait for it. */
  load() {
    this.loading ??= this.begin();
    return this.loading;
  }

  async begin() {
    await this.lookAgain();
    document.addEventListener("answered", this.whenAnswered);
    if (!isFrozen) this.stream.start();
    if (isFrozen || !this.strip.is_live) this.onState("still");
  }

  /** What no record tells, an answer for one, is not in the stream. */
  async lookAgain() {
    this.replace(await get(runPath(this.run)));
  }

  address() {
    const query = new URLSearchParams({ since: String(this.seq) });
    if (this.log) {
      query.set("log", this.log.item);
      query.set("offset", String(this.log.next()));
    }
    return runPath(this.run, `/events?${query}`);
  }

  close() {
    document.removeEventListener("answered", this.whenAnswered);
    this.stream.stop();
  }

  /** Of very many that need somebody, one row stands for the rest. */
  get needing() {
    return this.needs.reduce((sum, need) => sum + need.count, 0);
  }

  /** Have the log of an item sent from `next()` on; null for none. */
  follow(log) {
    this.log = log;
    this.stream.restart();
  }

  replace(whole) {
    this.items.clear();
    this.notes.clear();
    if (whole.blocks) this.blocks.clear();
    this.keys = whole.keys ?? [];
    this.needs = whole.needs ?? [];
    this.stages = whole.stages ?? [];
    this.notice = whole.notice ?? null;
    this.apply(whole);
  }

  apply(patch) {
    this.seq = Math.max(this.seq, patch.seq ?? 0);
    if (Number.isFinite(patch.clock)) [this.clock, this.received] = [patch.clock, performance.now()];
    if (patch.strip) this.strip = patch.strip;
    for (const name of ["needs", "stages", "keys", "notice"]) if (patch[name] !== undefined) this[name] = patch[name];
    for (const item of patch.items ?? []) this.items.set(item.id, item);
    for (const note of patch.notes ?? []) this.notes.set(note.id, note);
    for (const block of patch.blocks ?? []) this.blocks.set(block.id, block);
    this.changedItems = patch.items ?? [];
    this.dispatchEvent(new Event("change"));
  }

  async loadBlocks() {
    const timeline = await get(runPath(this.run, "/timeline"));
    this.legend = timeline.legend;
    this.slots = timeline.slots;
    for (const block of timeline.blocks) this.blocks.set(block.id, block);
    this.hasBlocks = true;
    this.dispatchEvent(new Event("change"));
  }

  ended() {
    this.stream.stop();
    this.onState("still");
    this.dispatchEvent(new Event("change"));
  }

  /** Seconds since the run's start, as of this moment. */
  now() {
    if (isFrozen || !this.strip?.is_live) return this.clock ?? 0;
    return this.clock + (performance.now() - this.received) / 1000;
  }
}
