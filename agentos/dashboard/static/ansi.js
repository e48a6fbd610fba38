// Terminal colours (SGR) of one line, as spans. Pure: what else a line says to a terminal is dropped.

const ESCAPE = /\x1b\[([0-9;:]*)m|\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])/g;
const PLAIN = { fg: null, bg: null, bold: false, dim: false, italic: false, underline: false, inverse: false, strike: false };

/** `[{text, style}]` and the style that the next line begins with. */
export function runsOf(line, style = PLAIN) {
  const runs = [];
  let from = 0;
  for (const match of line.matchAll(ESCAPE)) {
    if (match.index > from) runs.push({ text: line.slice(from, match.index), style });
    from = match.index + match[0].length;
    if (match[1] !== undefined) style = applied(style, match[1]);
  }
  if (from < line.length) runs.push({ text: line.slice(from), style });
  return { runs, style };
}

export function withoutColour(line) {
  return line.includes("\x1b") ? line.replace(ESCAPE, "") : line;
}

function isPlain(style) {
  return style === PLAIN || Object.keys(PLAIN).every((key) => style[key] === PLAIN[key]);
}

function applied(style, codes) {
  const numbers = (codes || "0").split(/[;:]/).map((code) => Number(code || 0));
  let now = { ...style };
  while (numbers.length) {
    const code = numbers.shift();
    if (code === 0) now = { ...PLAIN };
    else if (code === 1) now.bold = true;
    else if (code === 2) now.dim = true;
    else if (code === 3) now.italic = true;
    else if (code === 4) now.underline = true;
    else if (code === 7) now.inverse = true;
    else if (code === 9) now.strike = true;
    else if (code === 22) now.bold = now.dim = false;
    else if (code === 23) now.italic = false;
    else if (code === 24) now.underline = false;
    else if (code === 27) now.inverse = false;
    else if (code === 29) now.strike = false;
    else if (code >= 30 && code <= 37) now.fg = code - 30;
    else if (code >= 40 && code <= 47) now.bg = code - 40;
    else if (code >= 90 && code <= 97) now.fg = code - 82;
    else if (code >= 100 && code <= 107) now.bg = code - 92;
    else if (code === 38 || code === 48) now[code === 38 ? "fg" : "bg"] = longColour(numbers);
    else if (code === 39) now.fg = null;
    else if (code === 49) now.bg = null;
  }
  return now;
}

function longColour(numbers) {
  const kind = numbers.shift();
  if (kind === 5) return ofCube(byte(numbers.shift()));
  if (kind === 2) {
    const [red, green, blue] = [numbers.shift(), numbers.shift(), numbers.shift()].map(byte);
    return `rgb(${red}, ${green}, ${blue})`;
  }
  return null;
}

function byte(number) {
  return Math.min(255, Math.max(0, Math.trunc(Number(number) || 0)));
}

function ofCube(number) {
  if (number < 16) return number;
  if (number >= 232) {
    const grey = 8 + (number - 232) * 10;
    return `rgb(${grey}, ${grey}, ${grey})`;
  }
  const level = (step) => (step ? 55 + step * 40 : 0);
  const place = number - 16;
  return `rgb(${level(Math.floor(place / 36))}, ${level(Math.floor(place / 6) % 6)}, ${level(place % 6)})`;
}

/** The line as nodes, and the style that the next one begins with. */
export function nodesOf(line, style) {
  const { runs, style: after } = runsOf(line, style);
  return { nodes: runs.map(nodeOf), style: after };
}

function nodeOf({ text, style }) {
  if (isPlain(style)) return document.createTextNode(text);
  const element = document.createElement("span");
  element.textContent = text;
  const [fg, bg] = style.inverse ? [style.bg ?? "bg", style.fg ?? "fg"] : [style.fg, style.bg];
  paint(element, "fg", "color", fg);
  paint(element, "bg", "backgroundColor", bg);
  for (const name of ["bold", "dim", "italic", "underline", "strike"]) if (style[name]) element.classList.add(`ansi-${name}`);
  return element;
}

function paint(element, kind, property, colour) {
  if (colour === null) return;
  if (typeof colour === "string" && colour.startsWith("rgb(")) element.style[property] = colour;
  else element.classList.add(`ansi-${kind}-${colour}`);
}
