// Dark, light, or as the system says. `theme-early.js` sets it before the first paint.

import { button, h, icon, setAttribute } from "./dom.js";

const NAMES = ["auto", "dark", "light"];
const ICONS = { auto: "auto", dark: "moon", light: "sun" };
const KEPT_AS = "agentos-theme";
const SYSTEM_IS_DARK = matchMedia("(prefers-color-scheme: dark)");
const known = new Map();

export function themeSwitch() {
  const face = h("span", { class: "icon-box" });
  const control = button(face, () => choose(NAMES[(NAMES.indexOf(chosen()) + 1) % NAMES.length]), { class: "quiet square" });
  const show = () => {
    face.replaceChildren(icon(ICONS[chosen()]));
    const name = chosen() === "auto" ? "as the system" : chosen();
    setAttribute(control, "aria-label", `Theme: ${name}. Change it`);
    setAttribute(control, "title", `Theme: ${name}`);
  };
  const choose = (name) => {
    keep(name);
    document.documentElement.dataset.theme = name;
    show();
    changed();
  };
  SYSTEM_IS_DARK.addEventListener("change", changed);
  show();
  return control;
}

function changed() {
  document.dispatchEvent(new Event("themechange"));
}

function chosen() {
  const name = document.documentElement.dataset.theme;
  return NAMES.includes(name) ? name : "auto";
}

function keep(name) {
  try {
    localStorage.setItem(KEPT_AS, name);
  } catch {
    // A browser that keeps nothing shows the choice until the page is closed.
  }
}

export function isDark() {
  return chosen() === "dark" || (chosen() === "auto" && SYSTEM_IS_DARK.matches);
}

/** Who draws looks them up anew: that the theme changes may be told after it shows. */
export function forgetColours() {
  known.clear();
}

/** The page's colours for what is drawn on a canvas, which knows no tokens. */
export function colour(name) {
  if (!known.has(name)) {
    const probe = h("span");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    known.set(name, getComputedStyle(probe).color);
    probe.remove();
  }
  return known.get(name);
}
