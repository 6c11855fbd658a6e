// The page of the fleet: is anything wrong, and what first?

import { path } from "./api.js";
import { h } from "./dom.js";
import { certificate, command, mark, panel, same, sentence, stateWords, strip, time, told } from "./parts.js";
import { filter } from "./search.js";
import { count, now, plain, since } from "./words.js";

const RANK = { away: 0, lost: 1, behind: 2, never: 3, connected: 4 };
const HEADS = ["node", "state", "link, last 24 h", "pods that run", "waits for it", "version", "certificate", "last word of it"];
const REAL = 300;
const HEIGHT = 34;
const BEYOND = 12;
const LINKED = 50;

function link(query) { return `/page/?q=${encodeURIComponent(query)}`; }

function names(nodes) { return link(`name:${nodes.join(",")}`); }

function finding(each) {
  const nodes = each.nodes || [], pods = each.pods || [], devices = each.devices || [];
  const href = devices.length === 1 ? path("devices", ...devices[0].split("/")) : devices.length ? "/page/devices?q=overdue" : pods.length === 1 ? path("pods", ...pods[0].split("/")) : pods.length ? `/page/pods` : each.workload ? "/page/rollouts" : each.job ? path("rollouts", ...each.job.split("/")) : nodes.length === 1 ? path("nodes", nodes[0]) : nodes.length ? names(nodes) : null;
  return h("li", { key: each.sentence }, mark(each.mark), h("b", {}, plain(each.sentence)),
    href ? h("a", { href }, pods.length || devices.length || each.workload || each.job ? "Why" : nodes.length > 1 ? `Show the ${nodes.length}` : "Open") : h("span"),
    each.detail ? h("span", { class: "sub" }, told(each.detail)) : null,
    each.remedy ? h("span", { class: "sub advice" }, told(each.remedy)) : null);
}

function row(each, number) {
  const old = each.state === "away" || each.state === "never" ? "quiet" : "";
  const [ends, colour] = certificate(each.certificate_ends);
  const state = { away: "bad", lost: "warn", behind: "warn" }[each.state] || "quiet";
  const cells = [
    h("span", { role: "rowheader" }, h("a", { class: "name", href: path("nodes", each.name) }, mark(each.state), plain(each.name))),
    h("span", { role: "cell", class: state, title: plain(each.reason || "") }, stateWords(each)),
    h("span", { role: "cell" }, strip(each)),
    h("span", { role: "cell", class: `num ${(each.ready || 0) < (each.pods || 0) && !old ? "warn" : old}` }, each.pods ? `${each.ready || 0} of ${each.pods}` : "–"),
    h("span", { role: "cell", class: each.waiting ? "num" : "num quiet" }, each.waiting ? `${each.waiting}${each.oldest ? ` · ${since(each.oldest)}` : ""}` : "–"),
    h("span", { role: "cell", class: `num ${old}`, title: plain(each.version || "") }, plain((each.version || "–").replace(/^.*-(edgecore|kubeedge)-v?/, ""))),
    h("span", { role: "cell", class: `num ${colour}` }, ends),
    h("span", { role: "cell", class: "quiet", title: plain(each.last_word || "") }, plain(each.last_word || each.reason || "–")),
  ];
  return h("div", { key: each.name, class: "row", role: "row", "aria-rowindex": number + 2, css: { "--at": String(number) } }, cells);
}

/** Return the fleet's page for a state: rows by name, head, query; `go` changes the query. */
export function fleet(state, go) {
  const { head, rows } = state;
  if (!state.isRead) return h("p", { class: "quiet lead" }, "reading");
  const all = [...rows.values()].sort((a, b) => RANK[a.state] - RANK[b.state] || (a.ready || 0) - (a.pods || 0) - ((b.ready || 0) - (b.pods || 0)) || (a.name < b.name ? -1 : 1));
  let shown = all, wrong = "";
  try { shown = all.filter(filter(state.query, now())); } catch (error) { wrong = error.message; }
  const findings = head.findings || [], total = findings.length + (head.more || 0), hasNodes = Boolean(head.sentence?.length);
  return [
    h("div", { class: "lead" }, h("h1", { id: "sentence" }, hasNodes ? sentence(head.sentence, link) : "The nodes are not shown."), h("p", { class: "quiet" }, plain(head.pods))),
    h("div", { class: hasNodes ? "cols" : "" },
      panel("Needs attention", total ? `${total}, the worst first` : "",
        findings.length ? h("ol", { class: "todo" }, findings.map(finding)) : h("p", { class: "empty" }, mark("good"), " Nothing. ", h("span", { class: "quiet" }, Object.keys(state.forbidden).length ? "Only what is shown was looked at." : "`cloudcore doctor` looks at cloudcore itself.")),
        head.more ? h("p", { class: "empty quiet" }, `${head.more} more are not shown`) : null),
      hasNodes ? panel("Last 24 hours", h("a", { href: path("changes") }, "All changes"),
        (head.today || []).length ? h("ol", { class: "day" }, head.today.map((each) => h("li", {}, time(each.at), h("span", { class: each.is_bad ? "bad" : "" }, each.nodes?.length > LINKED || !each.nodes ? plain(each.text) : h("a", { href: each.nodes.length === 1 ? path("nodes", each.nodes[0]) : names(each.nodes) }, plain(each.text)))))) : h("p", { class: "empty quiet" }, "No node has come or gone."),
        head.today_more ? h("p", { class: "empty quiet" }, `${head.today_more} more of single nodes: `, "cloudcore nodes --history") : null) : null),
    hasNodes ? nodeTable(state, all, shown, wrong, go) : null,
    same(state.forbidden.links ? "kubectl get nodes" : hasNodes ? "cloudcore nodes" : "cloudcore get pods -A"),
  ];
}

function nodeTable(state, all, shown, wrong, go) {
  const counts = (state.head.counts) || {};
  const chip = (label, query, number) => h("button", { type: "button", class: "chip", "aria-pressed": String(state.query === query), onclick: () => go(query) }, label, h("span", { class: "num" }, String(number)));
  const isLong = shown.length > REAL;
  const first = isLong ? Math.max(0, Math.floor((state.scrolled || 0) / HEIGHT) - BEYOND) : 0;
  const part = isLong ? shown.slice(first, first + 40 + 2 * BEYOND) : shown;
  return h("section", { class: "panel", id: "nodes", tabindex: "-1", "aria-label": "Nodes" },
    h("div", { class: "tools" },
      h("span", { class: "chips", role: "group", "aria-label": "Which nodes" }, chip("All", "", all.length), chip("Away", "is:away", counts.away || 0), chip("Lost", "is:lost", counts.lost || 0), chip("Behind", "is:behind", counts.behind || 0),
        chip("Cordoned", "is:cordoned", all.filter((each) => each.is_cordoned).length), chip("Certificate < 7 d", "cert:<7d", all.filter(filter("cert:<7d", now())).length)),
      h("input", { id: "q", type: "search", placeholder: "Search nodes  ( / )", "aria-label": "Search nodes: a name, is:, zone:, label:, group:, version:, arch:, cert:", value: state.query, oninput: (event) => go(event.target.value) })),
    wrong ? h("p", { class: "empty bad", role: "alert" }, plain(wrong)) : null,
    h("div", { role: "table", "aria-label": "Nodes", "aria-rowcount": shown.length + 1 },
      h("div", { role: "rowgroup" }, h("div", { class: "row head", role: "row" }, HEADS.map((each) => h("span", { role: "columnheader" }, each)))),
      h("div", { class: isLong ? "rows virtual" : "rows", role: "rowgroup", tabindex: "0", "aria-label": "Nodes", onscroll: isLong ? (event) => { state.scrolled = event.target.scrollTop; state.paint(); } : null },
        h("div", { css: { height: isLong ? `${shown.length * HEIGHT}px` : "auto" } }, part.map((each, number) => row(each, first + number))))),
    shown.length ? null : h("p", { class: "empty quiet" }, all.length ? [`The search hides all ${count(all.length, "node")}. `, h("button", { type: "button", onclick: () => go("") }, "Show all")] : ["No node has joined. ", command("cloudcore token")]),
    h("div", { class: "key" }, h("span", {}, h("i", { class: "k-up" }), "connected"), h("span", {}, h("i", { class: "k-gone" }), "no connection"), h("span", {}, h("i", { class: "k-unknown" }), "not known"),
      h("span", {}, "Figures of a node that is away are the last that it has sent."), h("span", { class: "end", role: "status" }, `${shown.length} of ${count(all.length, "node")}`)));
}
