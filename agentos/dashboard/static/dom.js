// Making and changing elements. Text from anywhere goes in as text: nothing here reads a string as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element. `props`: class, text, on (listeners), data (data-*), and attributes; null, false and undefined are left out. */
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.setAttribute("class", value);
    else if (name === "text") element.textContent = value;
    else if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "data") for (const [key, data] of Object.entries(value)) element.dataset[key] = data;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Give an element these children; the ones that are there already stay where they are, and keep their focus. */
export function setChildren(element, ...children) {
  const wanted = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  wanted.forEach((child, place) => {
    const node = child instanceof Node ? child : document.createTextNode(String(child));
    if (element.childNodes[place] !== node) element.insertBefore(node, element.childNodes[place] ?? null);
  });
  while (element.childNodes.length > wanted.length) element.lastChild.remove();
}

export function setText(element, text) {
  const wanted = String(text ?? "");
  if (element.textContent !== wanted) element.textContent = wanted;
}

export function setAttribute(element, name, value) {
  if (value === null || value === undefined || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) {
    element.setAttribute(name, String(value));
  }
}

export function setClass(element, value) {
  if (element.getAttribute("class") !== value) element.setAttribute("class", value);
}

const CONTROLS = "a[href], button:enabled, input:enabled, select, textarea";

/** Draw something anew; what had the focus in it has it again, if it is still there, else what is in its place. */
export function keepingFocus(box, draw) {
  const before = [...box.querySelectorAll(CONTROLS)];
  const place = before.indexOf(document.activeElement);
  const name = place < 0 ? "" : nameOf(before[place]);
  draw();
  if (place < 0 || box.contains(document.activeElement)) return;
  const after = [...box.querySelectorAll(CONTROLS)];
  (after.find((one) => nameOf(one) === name) ?? after[place])?.focus({ preventScroll: true });
}

function nameOf(control) {
  return control.getAttribute("href") ?? control.getAttribute("aria-label") ?? control.textContent;
}

export function button(label, act, props = {}) {
  return h("button", { type: "button", on: { click: act }, ...props }, label);
}

const ICONS = {
  good: "M3.5 8.5l3 3 6-7",
  bad: "M4.5 4.5l7 7m0-7l-7 7",
  warn: "M8 3.5v5.5m0 3v.2",
  wait: "M8 4.2V8l2.4 1.6M8 1.8a6.2 6.2 0 100 12.4 6.2 6.2 0 000-12.4z",
  paused: "M6 4.5v7m4-7v7",
  skip: "M4 8h8",
  back: "M10 3.5L5.5 8l4.5 4.5",
  next: "M6 3.5L10.5 8 6 12.5",
  sun: "M8 5.2a2.8 2.8 0 100 5.6 2.8 2.8 0 000-5.6zM8 1.5v1.4m0 10.2v1.4M1.5 8h1.4m10.2 0h1.4M3.4 3.4l1 1m7.2 7.2l1 1m0-9.2l-1 1M4.4 11.6l-1 1",
  moon: "M13 9.7A5.6 5.6 0 016.3 3a5.6 5.6 0 106.7 6.7z",
  auto: "M2 3.5h12v7.5H2zM6 14h4M8 11v3",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  search: "M7 3a4 4 0 100 8 4 4 0 000-8zm3 7l3.5 3.5",
  close: "M4 4l8 8m0-8l-8 8",
  branch: "M5 3.5v9m0-3c0-2.5 6-1.5 6-5m0 0V3.5M5 3.5h0M11 3.5h0",
  link: "M6.5 9.5l3-3M7 4.5l1.6-1.6a2.6 2.6 0 013.7 3.7L10.7 8.2M9 11.5l-1.6 1.6a2.6 2.6 0 01-3.7-3.7L5.3 7.8",
};

export function icon(name, props = {}) {
  return svg("svg", { viewBox: "0 0 16 16", class: `icon icon-${name}`, "aria-hidden": "true", focusable: "false", ...props },
    svg("path", { d: ICONS[name] ?? "M8 8h0" }));
}
