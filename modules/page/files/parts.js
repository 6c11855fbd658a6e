// What several pages are made of.

import { h } from "./dom.js";
import { clock, duration, iso, moment, now, plain, seconds, since } from "./words.js";

const SHAPES = {
  connected: ["circle", { cx: 6, cy: 6, r: 5, fill: "var(--good)" }],
  away: ["circle", { cx: 6, cy: 6, r: 4.2, fill: "none", stroke: "var(--bad)", "stroke-width": 1.8, "stroke-dasharray": "2.6 1.8" }],
  lost: ["path", { d: "M6 1 11.4 10.6H.6Z", fill: "none", stroke: "var(--warn)", "stroke-width": 1.6 }],
  behind: ["path", { d: "M6 1 11.4 10.6H.6Z", fill: "var(--warn)" }],
  never: ["path", { d: "M2 2h8v8h-8z", fill: "none", stroke: "var(--quiet)", "stroke-width": 1.8 }],
  bad: ["path", { d: "M6 .4 11.6 6 6 11.6.4 6Z", fill: "var(--bad)" }],
  warn: ["path", { d: "M6 1 11.4 10.6H.6Z", fill: "var(--warn)" }],
  good: ["path", { d: "M1.5 6.5 4.6 9.6 10.6 2.8", fill: "none", stroke: "var(--good)", "stroke-width": 1.9 }],
};

/** A mark; a word always stands beside it. */
export function mark(name) {
  const [tag, props] = SHAPES[name] || SHAPES.never;
  return h("svg", { class: "g", viewBox: "0 0 12 12", "aria-hidden": "true" }, h(tag, props));
}

/** The state of a node in words. */
export function stateWords(row) {
  const age = row.state === "away" && row.since ? ` · ${since(row.since)}` : "";
  return row.state + age + (row.is_cordoned ? " · cordoned" : "") + (row.marks || []).map((each) => ` · ${plain(each)}`).join("");
}

/** The link of the last 24 hours: where it is hatched, there was no connection. */
export function strip(row) {
  const end = now(), begin = end - 86400, kids = [];
  const first = Math.max(begin, row.first_seen || end);
  let at = begin;
  const add = (until, kind) => {
    const width = (Math.min(until, end) - at) / 864;
    if (width > 0.05) kids.push(h("i", { class: kind, css: { width: `${width.toFixed(2)}%` } }));
    at = Math.max(at, until);
  };
  add(first, "u");
  for (const [from, until] of row.gaps || []) {
    add(Math.max(begin, from), "");
    add(until || end, "x");
  }
  add(end, row.first_seen ? "" : "u");
  const gaps = (row.gaps || []).length;
  return h("span", { class: "strip", role: "img", "aria-label": gaps ? `${gaps} ${gaps === 1 ? "gap" : "gaps"} in 24 hours` : "no gap in 24 hours" }, kids);
}

/** Numbers of several kinds as a bar, which the words beside it say, too. */
export function bar(parts, words) {
  const total = parts.reduce((sum, [, number]) => sum + number, 0) || 1;
  return h("span", { class: "strip four", role: "img", "aria-label": words }, parts.filter(([, number]) => number).map(([kind, number]) => h("i", { class: kind, css: { width: `${(number * 100 / total).toFixed(2)}%` } })));
}

/** The hours below a wide strip. */
export function hours() {
  return h("div", { class: "hours quiet", "aria-hidden": "true" }, [24, 18, 12, 6].map((ago) => h("span", {}, clock(now() - ago * 3600))), h("span", {}, "now"));
}

/** The sentence of a page: parts, some of which are links. */
export function sentence(parts, link) {
  return (parts || []).map((part) => (part.query ? h("a", { href: link(part.query) }, plain(part.text)) : plain(part.text)));
}

/** The command whose server this is; its verbs say the same as the pages. */
export let program = "cloudcore";
/** What the page may do beside reading. */
export let allowed = [];
export function setAbout(about) { program = about.program; allowed = about.allowed; }

/** A command with a button that copies it. */
export function command(text) {
  const copy = async ({ target }) => {
    const isCopied = await navigator.clipboard?.writeText(text).then(() => true, () => false);
    target.textContent = isCopied ? "Copied" : "Not copied";
    setTimeout(() => { target.textContent = "Copy"; }, 1500);
  };
  return h("div", { class: "cmd" }, h("code", {}, plain(text)), h("button", { type: "button", onclick: copy }, "Copy"));
}

/** A text with the commands in it, which stand between backquotes. */
export function told(text) {
  const parts = plain(text).split("`");
  return parts.length % 2 ? parts.map((part, number) => (number % 2 ? h("code", {}, part) : part)) : parts.join("`");
}

/** The command that says the same as a page, or what the label says. */
export function same(text, label = "The same in a terminal") {
  return h("div", { class: "same" }, h("span", { class: "quiet" }, `${label}: `), command(text));
}

export function time(at) { return at ? h("time", { datetime: iso(at), title: iso(at) }, moment(at)) : "–"; }

export function panel(title, end, ...kids) {
  return h("section", { class: "panel", "aria-label": title }, h("header", {}, h("h2", {}, title), end ? h("span", { class: "end quiet" }, end) : null), ...kids);
}

/** A panel without links: it can be focused, so that keys scroll what is wider than the window. */
export function textPanel(title, end, ...kids) {
  const made = panel(title, end, ...kids);
  made.props.tabindex = "0";
  return made;
}

/** A table. In a narrow window its cells are below each other, each with the name of its column; so its roles are named. */
export function table(kind, heads, rows) {
  for (const row of rows) {
    row.props.role = "row";
    row.kids.forEach((cell, number) => Object.assign(cell.props, { role: "cell", "data-label": heads[number] }));
  }
  return h("table", { class: `stack ${kind}`, role: "table" },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads.map((each) => h("th", { scope: "col", role: "columnheader" }, each)))),
    h("tbody", { role: "rowgroup" }, rows));
}

/** What the user may not see, by the rights that are missing. */
export function missing(forbidden) {
  return Object.values(forbidden || {}).map((each) => h("p", { class: "missing" }, "Not shown: ", plain(each)));
}

/** A table of Events, the newest first. */
export function events(found, kind) {
  return found.length ? table("", ["when", "event", "message", "by"], found.slice().reverse().map((each) => h("tr", {}, h("td", {}, time(seconds(each.at))),
    h("td", { class: each.type === "Warning" ? "warn" : "" }, plain(each.reason), each.count > 1 ? ` ×${each.count}` : ""), h("td", {}, plain(each.message)), h("td", { class: "quiet" }, plain(each.who))))) : h("p", { class: "empty quiet" }, `No event is kept of this ${kind}: events are kept for an hour.`);
}

/** A table of conditions. */
export function conditions(found) {
  if (!found.length) return h("p", { class: "empty quiet" }, "None is known.");
  return table("", ["condition", "status", "reason", "message", "since"],
    found.map((each) => h("tr", {}, h("td", {}, plain(each.type)), h("td", {}, plain(each.status)), h("td", {}, plain(each.reason)), h("td", { class: "quiet" }, plain(each.message)), h("td", {}, time(seconds(each.lastTransitionTime))))));
}

export function certificate(ends) {
  if (!ends) return ["–", "quiet"];
  const days = Math.floor((ends - now()) / 86400);
  if (ends <= now()) return ["has ended", "bad"];
  return days < 60 ? [`in ${days < 1 ? duration(ends - now()) : `${days} days`}`, days < 14 ? "bad" : "quiet"] : [`${Math.round(days / 30)} months`, "quiet"];
}
