// Numbers and times in words, as `agentos/text/words.py` has them. Pure.

/** 2:31, 1:02:05. */
export function clock(seconds) {
  if (!Number.isFinite(seconds)) return "";
  const whole = Math.max(0, Math.floor(seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (number) => String(number).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

/** How long something took, as the terminal has it: 12.3s, 2m 05s, 1h 02m. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "";
  if (seconds > 0 && seconds < 0.05) return "<0.1s";
  if (seconds < 59.95) return `${Math.max(0, seconds).toFixed(1)}s`;
  const whole = Math.round(seconds);
  const two = (number) => String(number).padStart(2, "0");
  return whole < 3600 ? `${Math.floor(whole / 60)}m ${two(whole % 60)}s` : `${Math.floor(whole / 3600)}h ${two(Math.floor(whole / 60) % 60)}m`;
}

/** How long until something happens, rounded up: 47 s, 13 min, 5 h 10 min. */
export function countdown(seconds) {
  const whole = Math.max(1, Math.ceil(seconds));
  if (whole < 120) return `${whole} s`;
  const minutes = Math.ceil(whole / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function money(dollars, { exact = false } = {}) {
  if (!Number.isFinite(dollars)) return "";
  if (dollars === 0) return "$0";
  if (dollars < 0.01 || (exact && dollars < 1)) return `$${dollars.toFixed(4)}`;
  return `$${dollars.toFixed(2)}`;
}

/** 812, 12.4k, 3.1M. */
export function count(number) {
  if (!Number.isFinite(number)) return "";
  if (number < 10_000) return number.toLocaleString("en");
  if (number < 1e6) return `${(number / 1e3).toFixed(number < 1e5 ? 1 : 0)}k`;
  return `${(number / 1e6).toFixed(1)}M`;
}

export function bytes(size) {
  if (size < 1024) return `${size} B`;
  if (size < 1024 * 1024) return `${(size / 1024).toFixed(size < 10_240 ? 1 : 0)} KB`;
  return `${(size / 1024 / 1024).toFixed(1)} MB`;
}

export function percent(part) {
  return Number.isFinite(part) ? `${Math.round(part * 100)} %` : "";
}

export function plural(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

/** Of a moment: today 14:03, yesterday 09:12, 3 Nov 09:12, 3 Nov 2025. */
export function moment(iso, now = Date.now()) {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return "";
  const time = at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  const day = (date) => new Date(date).setHours(0, 0, 0, 0);
  const days = Math.round((day(now) - day(at)) / 86_400_000);
  if (days === 0) return `today ${time}`;
  if (days === 1) return `yesterday ${time}`;
  const sameYear = at.getFullYear() === new Date(now).getFullYear();
  const date = at.toLocaleDateString("en-GB", { day: "numeric", month: "short", ...(sameYear ? {} : { year: "numeric" }) });
  return sameYear ? `${date} ${time}` : date;
}
