// Numbers and times in words. Pure.

/** 2:31, 1:02:05. */
export function clock(seconds) {
  if (!Number.isFinite(seconds)) return "";
  const whole = Math.max(0, Math.floor(seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (number) => String(number).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

/** 0.4 s, 12 s, 3 min, 1 h 20 min, 2 d 3 h. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 0.95) return `${Math.max(0, seconds).toFixed(seconds < 0.095 ? 2 : 1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return hours % 24 ? `${days} d ${hours % 24} h` : `${days} d`;
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

export function baseName(path) {
  return String(path ?? "").replace(/\/+$/, "").split("/").pop();
}
