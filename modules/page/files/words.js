// Ages, times and counts in words. Ages are counted from the server's clock; the browser's may be wrong by a day.

let offset = 0;

/** Take over the server's time, in seconds since 1970. */
export function setNow(seconds) { offset = seconds - Date.now() / 1000; }

export function now() { return Date.now() / 1000 + offset; }

/** A duration as kubectl prints it: 45s, 12m, 3h20m, 5d. */
export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds)), minutes = Math.floor(whole / 60), hours = Math.floor(whole / 3600);
  if (whole < 120) return `${whole}s`;
  if (minutes < 10) return whole % 60 ? `${minutes}m${whole % 60}s` : `${minutes}m`;
  if (hours < 3) return `${minutes}m`;
  if (hours < 8) return minutes % 60 ? `${hours}h${minutes % 60}m` : `${hours}h`;
  return hours < 48 ? `${hours}h` : `${Math.floor(hours / 24)}d`;
}

/** The time since a moment in seconds since 1970. */
export function since(seconds) { return duration(now() - seconds); }

/** Seconds since 1970 of a time in RFC 3339; null for anything else. */
export function seconds(text) {
  const parsed = Date.parse(text);
  return Number.isNaN(parsed) ? null : parsed / 1000;
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

/** A moment: the time of today, else with the day. */
export function moment(at) {
  const date = new Date(at * 1000);
  return (Math.abs(now() - at) < 43200 ? CLOCK : DAY).format(date);
}

/** The time of the day of a moment. */
export function clock(at) { return CLOCK.format(new Date(at * 1000)); }

const WEEKDAY = new Intl.DateTimeFormat("en-GB", { weekday: "long", day: "numeric", month: "long" });

/** The day of a moment. */
export function day(at) { return WEEKDAY.format(new Date(at * 1000)); }

export function iso(at) { return new Date(at * 1000).toISOString().replace(".000Z", "Z"); }

const plurals = new Intl.PluralRules("en");

export function count(number, noun) { return `${number.toLocaleString("en")} ${noun}${plurals.select(number) === "one" ? "" : "s"}`; }

// What beehive.printable escapes in commands: control characters, and those that reorder or hide text.
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e00ff}\u{e01f0}-\u{e0fff}]/gu;

/** A text of others, with unprintable characters as their escapes. Anything that is no text is none. */
export function plain(value) {
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  if (typeof value !== "string") return "";
  return value.replace(UNPRINTABLE, (found) => {
    const code = found.codePointAt(0), [letter, width] = code < 256 ? ["x", 2] : code < 65536 ? ["u", 4] : ["U", 8];
    return `\\${letter}${code.toString(16).padStart(width, "0")}`;
  });
}
