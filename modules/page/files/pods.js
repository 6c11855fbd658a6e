// The page of the pods: which do not run?

import { path } from "./api.js";
import { h } from "./dom.js";
import { mark, panel, program, same, table } from "./parts.js";
import { count, plain, seconds, since } from "./words.js";

/** Return a table of pods; those of one node do not name it, and those of nodes that are away are neither good nor bad. */
export function podTable(pods, node, unheard = []) {
  const away = node && ["away", "never"].includes(node.state), silent = new Set(unheard);
  return table(away ? "pods quiet" : "pods", ["pod", "status", "ready", "restarts", "age", ...(node ? [] : ["node"])],
    pods.map((each) => [each, away || silent.has(each.node)]).map(([each, old]) => h("tr", { key: `${each.namespace}/${each.name}`, class: old && !away ? "quiet" : "" },
      h("td", {}, h("a", { class: "name", href: path("pods", each.namespace, each.name) }, mark(old ? "never" : each.is_troubled ? "bad" : "good"), `${plain(each.namespace)}/${plain(each.name)}`)),
      h("td", { class: each.is_troubled && !old ? "bad" : "" }, old && !away ? `${plain(each.status)}, as reported last` : plain(each.status), each.why ? h("div", { class: "quiet" }, plain(each.why)) : null), h("td", { class: "num" }, plain(each.ready)),
      h("td", { class: "num" }, String(each.restarts || 0)), h("td", { class: "num" }, each.created ? since(seconds(each.created) || 0) : "–"),
      node ? null : h("td", {}, each.node ? h("a", { href: path("nodes", each.node) }, plain(each.node)) : h("span", { class: "quiet" }, "no node")))));
}

/** Return the page of the pods; `go` changes the query. */
export function pods(answer, query, go) {
  const field = h("input", { id: "q", type: "search", placeholder: "Search all pods  ( / )", "aria-label": "Search pods: name, namespace, node, status, image", value: query, oninput: (event) => go(event.target.value) });
  const groups = answer.groups.map((each) => panel(`${each.owner ? plain(each.owner) : "Without a workload"}: ${plain(each.status)}`, count(each.pods.length, "pod"), podTable(each.pods, null, answer.unheard)));
  const found = answer.found.length ? panel("Found", answer.more ? `${answer.more} more: search for more words` : count(answer.found.length, "pod"), podTable(answer.found, null, answer.unheard))
    : h("p", { class: "empty quiet" }, "No pod has all of these words in its name, node, status, owner or image.");
  return [
    h("div", { class: "lead" }, h("h1", { id: "sentence" }, plain(answer.sentence)), answer.found.length ? null : h("p", { class: "quiet" }, "Those that do not run are below; all others by search.")),
    h("div", { class: "tools plain" }, field),
    query ? found : groups.length ? groups : answer.found.length ? null : h("p", { class: "empty" }, mark("good"), " Every pod runs."),
    !query && answer.found.length ? panel(groups.length ? "All others" : "All pods", count(answer.found.length, "pod"), podTable(answer.found, null, answer.unheard)) : null,
    answer.more && !query ? h("p", { class: "empty quiet" }, `${count(answer.more, "more pod")} that ${answer.more === 1 ? "does" : "do"} not run`) : null,
    same(`${program} get pods -A`),
  ];
}
