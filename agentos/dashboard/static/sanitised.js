// The one place where HTML becomes elements: documents that the server rendered from Markdown and sanitised.

const policy = globalThis.trustedTypes?.createPolicy("agentos", { createHTML: (html) => html });

export function sanitisedDocument(html) {
  const box = document.createElement("div");
  box.className = "prose";
  box.innerHTML = policy ? policy.createHTML(html) : html;
  for (const link of box.querySelectorAll("a[href]")) {
    // A fragment would be taken for one of the page's own addresses.
    if (link.getAttribute("href").startsWith("#")) link.removeAttribute("href");
    else Object.assign(link, { target: "_blank", rel: "noopener noreferrer" });
  }
  for (const wide of box.querySelectorAll("table, pre")) wide.tabIndex = 0; // They may scroll sideways: by keys as well.
  return box;
}
