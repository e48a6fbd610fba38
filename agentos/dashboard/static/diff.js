// A diff, drawn: files that fold, both line numbers, and what changed within a line.

import { h } from "./dom.js";

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;
const MOST_ROWS = 4000;
const MOST_OPEN = 800;

/** The rows of a file: `{kind, before, after, text, part}`. Pure. */
export function rowsOf(file) {
  const rows = [];
  for (const hunk of file.hunks ?? []) {
    const place = HUNK.exec(hunk.header);
    let [before, after] = place ? [Number(place[1]), Number(place[2])] : [1, 1];
    rows.push({ kind: "hunk", text: hunk.header });
    for (const [sign, text] of hunk.lines) {
      if (sign === "+") rows.push({ kind: "add", after: after++, text });
      else if (sign === "-") rows.push({ kind: "del", before: before++, text });
      else if (sign === " ") rows.push({ kind: "same", before: before++, after: after++, text });
      else rows.push({ kind: "note", text });
    }
  }
  markChanges(rows);
  return rows;
}

/** Where as many lines went as came, the part of each that differs. */
function markChanges(rows) {
  for (let at = 0; at < rows.length; at += 1) {
    if (rows[at].kind !== "del") continue;
    let gone = at;
    while (rows[gone]?.kind === "del") gone += 1;
    let come = gone;
    while (rows[come]?.kind === "add") come += 1;
    if (gone - at === come - gone) {
      for (let pair = 0; pair < gone - at; pair += 1) differ(rows[at + pair], rows[gone + pair]);
    }
    at = come - 1;
  }
}

function differ(gone, come) {
  const [a, b] = [gone.text, come.text];
  const shortest = Math.min(a.length, b.length);
  let head = 0;
  while (head < shortest && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < shortest - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  if (head + tail < shortest * 0.3) return;
  gone.part = [head, a.length - tail];
  come.part = [head, b.length - tail];
}

const SIGNS = { add: "+", del: "−", same: " " };
const SPOKEN = { add: "added", del: "removed" };

export function diffView(diff) {
  const files = diff.files ?? [];
  if (!files.length) return h("p", { class: "empty-line", text: "The two are the same." });
  let left = MOST_ROWS;
  const parts = files.map((file) => {
    const all = rowsOf(file);
    const rows = all.slice(0, left);
    left -= rows.length;
    return fileView(file, rows, all.length - rows.length);
  });
  return h("div", { class: "diff" }, parts,
    diff.is_cut ? h("p", { class: "empty-line", text: "The diff is long: the rest is not shown here." }) : null);
}

function fileView(file, rows, hidden) {
  const name = file.path || "document";
  return h("details", { open: rows.length > 0 && rows.length <= MOST_OPEN, class: "diff-file" },
    h("summary", {}, h("span", { class: "mono diff-name", text: name }), changes(file.added, file.removed)),
    file.is_binary ? h("p", { class: "log-note", text: "A binary file." }) : null,
    h("div", { class: "diff-scroll", tabindex: "0", role: "region", "aria-label": `Changes of ${name}` },
      h("table", { class: "diff-table" }, h("tbody", {}, rows.map(rowView)))),
    hidden ? h("p", { class: "log-note", text: `${hidden} more lines are not shown here.` }) : null);
}

export function changes(added, removed) {
  if (!Number.isFinite(added)) return h("span", { class: "dim", text: "git cannot say how much" });
  return h("span", { class: "changes" },
    h("span", { class: "plus", text: `+${added}` }), " ", h("span", { class: "minus", text: `−${removed}` }));
}

function rowView(row) {
  if (row.kind === "hunk" || row.kind === "note") {
    return h("tr", { class: `diff-${row.kind}` }, h("td", { colspan: "3", text: row.text }));
  }
  return h("tr", { class: `diff-${row.kind}` },
    h("td", { class: "diff-number", data: { number: row.before ?? "" } }),
    h("td", { class: "diff-number", data: { number: row.after ?? "" } }),
    h("td", { class: "diff-text" },
      h("span", { class: "diff-sign", "aria-hidden": "true", text: SIGNS[row.kind] }),
      SPOKEN[row.kind] ? h("span", { class: "unseen", text: `${SPOKEN[row.kind]}: ` }) : null,
      partsOf(row)));
}

function partsOf({ text, part }) {
  if (!part) return text;
  return [text.slice(0, part[0]), h("mark", { text: text.slice(...part) }), text.slice(part[1])];
}
