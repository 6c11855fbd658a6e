// The jobs of nodes: how far is each, wave by wave and node by node, and what has stopped it?

import { path } from "./api.js";
import { h } from "./dom.js";
import { bar, mark, panel, same, table, told } from "./parts.js";
import { count, plain, since } from "./words.js";

const PARTS = [["done", "up", "done"], ["under_way", "way", "under way"], ["failed", "bad", "failed"], ["waiting", "gone", "waiting"]];

/** The nodes of a job or a wave, as a bar and in words. */
function counts(found) {
  const words = PARTS.filter(([part]) => found[part]).map(([part, , word]) => `${found[part]} ${word}${part === "waiting" && found.away ? ` (${found.away} away)` : ""}`).join(" · ") || "no nodes yet";
  return [bar(PARTS.map(([part, kind]) => [kind, found[part]]), words), words];
}

/** What goes on with a job, or why its next wave waits. */
function onward(row) {
  if (row.next) return h("p", {}, "It goes on as ", h("a", { href: path("rollouts", row.kind, row.next) }, plain(row.next)), ".");
  const wave = row.resume ? null : row.waves.find((each) => each.held);
  return wave ? h("p", { class: "quiet" }, `Wave ${wave.number} is held: ${plain(wave.held)}.`) : null;
}

/** Return the panel of the jobs of a fleet. */
export function jobs(found) {
  const rows = found.rows.map((row) => {
    const [drawn, words] = counts(row.counts);
    return h("div", { class: "body line", key: `${row.kind}/${row.name}` },
      h("p", {}, h("a", { class: "name", href: path("rollouts", row.kind, row.name) }, plain(row.name)), h("span", { class: "quiet" }, `${plain(row.kind)} · ${plain(row.about)}${row.created === null ? "" : ` · ${since(row.created)} ago`}`)),
      drawn, h("p", {}, words), h("p", {}, mark(row.phase === "Failure" && !row.next ? "bad" : row.phase === "Completed" ? "good" : "never"), " ", h("b", {}, plain(row.phase || "has not begun")), row.reason ? `: ${plain(row.reason)}` : ""), onward(row), row.resume ? same(row.resume, "Go on with the nodes that are left") : null);
  });
  return panel("Jobs of nodes", plain(found.sentence), rows.length ? rows : h("p", { class: "empty quiet" }, told("`cloudcore upgrade nodes` and `cloudcore prepull` make one.")),
    found.more ? h("p", { class: "empty quiet" }, count(found.more, "older job")) : null);
}

function waves(row) {
  return panel("Waves", count(row.waves.length, "wave"), table("", ["wave", "nodes", "done", "under way", "failed", "waiting", "held"],
    row.waves.map((wave) => h("tr", { key: String(wave.number) }, h("td", {}, String(wave.number)), ["nodes", "done", "under_way"].map((part) => h("td", { class: "num" }, String(wave.counts[part]))),
      h("td", { class: wave.counts.failed ? "num bad" : "num" }, String(wave.counts.failed)), h("td", { class: "num" }, wave.counts.away ? `${wave.counts.waiting} (${wave.counts.away} away)` : String(wave.counts.waiting)), h("td", { class: "quiet" }, plain(wave.held || "–"))))));
}

function versions(each) {
  return each.before !== each.after && each.after ? `${plain(each.before || "…")} → ${plain(each.after)}` : plain(each.before || "–");
}

function nodes(story) {
  const heads = ["node", ...(story.row.waves.length ? ["wave"] : []), "state", "step", "since", ...(story.row.kind === "NodeUpgradeJob" ? ["version"] : []), "reason"];
  return table("", heads, story.nodes.map((each) => {
    const failed = each.state === "Failure" || each.state === "Unknown";
    return h("tr", { key: each.node },
      h("td", {}, h("a", { class: "name", href: path("nodes", each.node) }, mark(failed ? "bad" : each.state === "Successful" ? "good" : "never"), plain(each.node))),
      story.row.waves.length ? h("td", { class: "num" }, String(each.wave)) : null, h("td", { class: failed ? "bad" : "" }, plain(each.state)), h("td", {}, plain(each.step || "–")), h("td", { class: "num" }, each.since === null ? "–" : since(each.since)),
      story.row.kind === "NodeUpgradeJob" ? h("td", { class: "num" }, versions(each)) : null, h("td", {}, plain(each.reason || "–")));
  }));
}

/** Return the page of a job; `go` changes the query. */
export function job(story, query, go) {
  const { row } = story, [drawn, words] = counts(row.counts);
  const field = h("input", { id: "q", type: "search", placeholder: "Search its nodes  ( / )", "aria-label": "Search the nodes of the job: name, state, step, reason", value: query, oninput: (event) => go(event.target.value) });
  return [
    h("div", { class: "lead" }, h("h1", { id: "sentence" }, plain(story.sentence)), h("p", { class: "quiet" }, plain(row.about)),
      row.resume ? same(row.resume, "Go on with the nodes that are left") : null),
    row.waves.length ? waves(row) : null,
    panel("Nodes", words, h("div", { class: "body" }, drawn, onward(row)), h("div", { class: "tools" }, field),
      story.nodes.length ? nodes(story) : h("p", { class: "empty quiet" }, query ? "No node of it has all of these words in its name, state, step or reason." : "It has no nodes yet."),
      story.more ? h("p", { class: "empty quiet" }, `${count(story.more, "more node")}: search for more words`) : null),
    same(`cloudcore upgrade status ${row.name}`),
  ];
}
