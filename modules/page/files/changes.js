// The page of the changes: who changed what, and how far did it get?

import { path } from "./api.js";
import { h } from "./dom.js";
import { mark, panel, same, table, time } from "./parts.js";
import { count, day, plain } from "./words.js";

/** A link to the changes that a search selects. */
export function changesOf(query, label) { return h("a", { href: `/page/changes?q=${encodeURIComponent(query)}` }, label); }

function object(row) {
  const kind = plain(row.kind).replace(/\..*$/, ""), name = row.namespace ? `${plain(row.namespace)}/${plain(row.name)}` : plain(row.name);
  const own = { Pod: () => path("pods", row.namespace, row.name), Node: () => path("nodes", row.name), Device: () => path("devices", row.namespace, row.name) }[kind];
  return [h("span", { class: "quiet" }, `${kind} `), own && row.verb !== "deleted" ? h("a", { href: own() }, name) : changesOf(`kind:${row.kind.toLowerCase()}${row.namespace ? ` ns:${row.namespace}` : ""} name:${row.name}`, name)];
}

function line(row) {
  return h("tr", { key: `${row.version}.${row.part || 0}` }, h("td", {}, time(row.at)),
    h("td", {}, plain(row.user), row.manager ? h("div", { class: "quiet" }, `via ${plain(row.manager)}`) : null),
    h("td", {}, object(row)),
    h("td", {}, plain(row.verb), (row.fields || []).map((each) => h("div", { class: "quiet" }, plain(each))), row.more ? h("div", { class: "quiet" }, "and more") : null),
    h("td", {}, row.reached ? [row.mark ? [mark(row.mark), " "] : "", plain(row.reached)] : h("span", { class: "quiet" }, "–")));
}

/** Return the page of the changes; `go` changes the query. */
export function changes(answer, query, go) {
  const days = new Map();
  for (const row of answer.rows) days.set(day(row.at), [...(days.get(day(row.at)) || []), row]);
  const bare = query.split(/\s+/).filter((word) => word && !/^(is|before):/.test(word)).join(" ");
  const all = /(^|\s)is:all(\s|$)/.test(query);
  return [
    h("div", { class: "lead" }, h("h1", { id: "sentence" }, plain(answer.sentence)), h("p", { class: "quiet" }, "Who changed which fields of what, without values; how far it got is what nodes and pods say now.")),
    h("div", { class: "tools plain" }, h("input", { id: "q", type: "search", placeholder: "Search changes  ( / )", "aria-label": "Search changes: words, kind:, ns:, name:, node:, is:all", value: query, oninput: (event) => go(event.target.value) }),
      h("button", { class: "chip", type: "button", "aria-pressed": String(all), onclick: () => go(all ? bare : `${bare} is:all`.trim()) }, "also by cloudcore and nodes")),
    answer.wrong ? h("p", { class: "bad", role: "status" }, plain(answer.wrong)) : null,
    [...days].map(([title, rows]) => panel(title, "", table("devices changes", ["when", "who", "what", "change", "how far it got"], rows.map(line)))),
    answer.more ? h("p", { class: "empty" }, changesOf(`${query.replace(/\s*before:[\d.]+/, "")} before:${answer.before}`.trim(), `${count(answer.more, "earlier change")}`)) : null,
    answer.command ? same(answer.command) : null,
  ];
}
