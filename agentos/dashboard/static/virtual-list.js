// A long list that scrolls with the page: only the rows in sight, and the active one, are in the document.

import { h, setAttribute } from "./dom.js";

const BEYOND = 12; // Rows kept above and below the window: scrolling meets no blank space.

export class VirtualList {
  /**
   * `makeRow()` gives `{element, update(value, isActive)}`; `heightOf()` is the height of one row in pixels.
   * Rows are reused: an element shows one value after another.
   */
  constructor({ makeRow, heightOf, keyOf, idPrefix, rowOffset = 1 }) {
    this.makeRow = makeRow;
    this.heightOf = heightOf;
    this.keyOf = keyOf;
    this.idPrefix = idPrefix;
    this.rowOffset = rowOffset;
    this.values = [];
    this.activeKey = null;
    this.shown = new Map();
    this.spare = [];
    this.element = h("div", { class: "virtual", role: "rowgroup" });
    this.draw = this.draw.bind(this);
    this.wish = () => {
      if (this.frame) return;
      this.frame = requestAnimationFrame(this.draw);
    };
  }

  connect() {
    window.addEventListener("scroll", this.wish, { passive: true });
    window.addEventListener("resize", this.wish, { passive: true });
    this.wish();
  }

  disconnect() {
    window.removeEventListener("scroll", this.wish);
    window.removeEventListener("resize", this.wish);
    if (this.frame) cancelAnimationFrame(this.frame);
    this.frame = 0;
  }

  set(values) {
    this.values = values;
    this.places = new Map(values.map((value, place) => [this.keyOf(value), place]));
    this.wish();
  }

  get activePlace() {
    return this.activeKey === null ? -1 : this.places?.get(this.activeKey) ?? -1;
  }

  activate(key, { scroll = true } = {}) {
    this.activeKey = key;
    if (scroll) this.reveal(this.activePlace);
    this.draw();
  }

  reveal(place) {
    if (place < 0) return;
    const height = this.heightOf();
    const top = this.element.getBoundingClientRect().top + place * height;
    const covered = this.coveredTop?.() ?? 0;
    if (top < covered) window.scrollBy(0, top - covered - height);
    else if (top + height > window.innerHeight) window.scrollBy(0, top + height * 2 - window.innerHeight);
  }

  draw() {
    this.frame = 0;
    const height = this.heightOf();
    const total = `${this.values.length * height}px`;
    if (this.element.style.height !== total) this.element.style.height = total;
    const top = -this.element.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(top / height) - BEYOND);
    const last = Math.min(this.values.length, Math.ceil((top + window.innerHeight) / height) + BEYOND);
    const wanted = new Set();
    for (let place = first; place < last; place += 1) wanted.add(place);
    if (this.activePlace >= 0) wanted.add(this.activePlace);
    this.drop(wanted);
    for (const place of wanted) this.show(place, height);
  }

  drop(wanted) {
    for (const [place, row] of this.shown) {
      if (wanted.has(place)) continue;
      this.shown.delete(place);
      row.element.remove();
      this.spare.push(row);
    }
  }

  show(place, height) {
    let row = this.shown.get(place);
    if (!row) {
      row = this.spare.pop() ?? this.makeRow();
      row.element.style.transform = `translateY(${place * height}px)`;
      row.height = height;
      setAttribute(row.element, "aria-rowindex", place + 1 + this.rowOffset);
      row.element.id = `${this.idPrefix}${place}`;
      this.shown.set(place, row);
      this.element.append(row.element);
    } else if (row.height !== height) {
      row.element.style.transform = `translateY(${place * height}px)`;
      row.height = height;
    }
    row.update(this.values[place], this.keyOf(this.values[place]) === this.activeKey);
  }
}
