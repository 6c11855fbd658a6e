// The history of a property: a step line of numbers up to now, and a table of its values.

import { h } from "./dom.js";
import { table, time } from "./parts.js";
import { count, now, plain, since } from "./words.js";

const WIDTH = 1000, HEIGHT = 120, EDGE = 6, ROWS = 50;

/** Return the line of a history whose values are numbers: each value lasts until the next one, the last until now. */
export function steps(history) {
  const points = history.values.map(([at, value]) => [at, value.trim() === "" ? NaN : Number(value)]).filter(([, value]) => Number.isFinite(value));
  if (points.length < 2) return null;
  const values = points.map(([, value]) => value), low = Math.min(...values), high = Math.max(...values);
  const begin = points[0][0], span = Math.max(1, now() - begin);
  const x = (at) => (Math.min(1, Math.max(0, (at - begin) / span)) * WIDTH).toFixed(1);
  const y = (value) => (high === low ? HEIGHT / 2 : HEIGHT - EDGE - ((value - low) / (high - low)) * (HEIGHT - 2 * EDGE)).toFixed(1);
  const hatch = (history.gaps || []).flatMap(([from, until]) => hatched(Number(x(from)), Number(x(until || now()))));
  const line = points.map(([at, value], number) => (number ? `H${x(at)}V${y(value)}` : `M${x(at)} ${y(value)}`)).join("");
  const said = `${count(points.length, "number")} from ${low} to ${high} within ${since(begin)}, the last ${values[values.length - 1]}`;
  return h("figure", { class: "steps" },
    h("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": said }, hatch.length ? h("path", { d: hatch.join(""), fill: "none", stroke: "var(--edge)", "stroke-width": 1 }) : null, h("path", { d: `${line}H${WIDTH}`, fill: "none", stroke: "var(--accent)", "stroke-width": 2 })),
    h("figcaption", { class: "quiet" }, said, hatch.length ? "; hatched where its node was not connected" : ""));
}

/** Diagonal lines between two places of the graph. */
function hatched(from, to) {
  const lines = [], slope = 40;
  for (let at = from - slope; at < to; at += 10) {
    const left = Math.max(at, from), right = Math.min(at + slope, to);
    if (right > left) lines.push(`M${left.toFixed(1)} ${(HEIGHT * (1 - (left - at) / slope)).toFixed(1)}L${right.toFixed(1)} ${(HEIGHT * (1 - (right - at) / slope)).toFixed(1)}`);
  }
  return lines;
}

/** Return the newest values of a history, the newest first. */
export function valuesTable(history, unit) {
  const shown = history.values.slice(-ROWS).reverse();
  return [table("", ["reported", "value"], shown.map(([at, value]) => h("tr", {}, h("td", {}, time(at)), h("td", {}, plain(value), unit ? ` ${plain(unit)}` : "")))),
  history.values.length > ROWS ? h("p", { class: "empty quiet" }, `${count(history.values.length - ROWS, "older value")} in the line only`) : null];
}
