// The page of a node: how is it, and what waits for it?

import { changesOf } from "./changes.js";
import { h } from "./dom.js";
import { certificate, conditions, events, hours, mark, panel, same, stateWords, strip, table, textPanel, time, told } from "./parts.js";
import { podTable } from "./pods.js";
import { count, duration, now, plain, since } from "./words.js";

/** Return the page of a node. */
export function node(story) {
  const { row } = story, [ends, colour] = certificate(row.certificate_ends);
  const isLinkKnown = !story.forbidden?.links;
  const ofLink = [
    ["waits for it", row.waiting ? `${count(row.waiting, "message")}, the oldest for ${since(row.oldest || now())}` : "nothing"],
    ["certificate", h("span", { class: colour }, ends === "–" ? "none: the link has no TLS" : row.certificate_ends ? ["ends ", ends, " · ", time(row.certificate_ends)] : ends)],
    ["address", plain(row.address || "–")],
    ["cloudcore", plain(row.cloudcore || "–")],
    ["last word of it", plain(row.last_word || "–")],
    ...row.clock_ahead ? [["clock", h("span", { class: "bad" }, `${duration(Math.abs(row.clock_ahead))} ${row.clock_ahead > 0 ? "ahead" : "behind"}`)]] : [],
  ];
  const facts = [
    ["state", h("span", {}, mark(row.state), " ", stateWords(row), row.reason ? h("span", { class: "quiet" }, ` · ${plain(row.reason)}`) : null)],
    ...isLinkKnown ? ofLink : [],
    ...Object.entries(story.facts).map(([name, value]) => [plain(name), plain(value)]),
  ];
  return [
    h("div", { class: "lead" }, h("h1", { id: "sentence" }, told(story.sentence)), h("p", { class: "quiet" }, changesOf(`node:${row.name}`, "What changed here"), " · The last 24 hours: "), h("div", { class: "wide" }, strip(row), hours())),
    h("div", { class: "cols even" },
      textPanel("The node", "", h("table", {}, h("tbody", {}, facts.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value)))))),
      isLinkKnown ? textPanel("Connections", "seven days", history(story.sessions)) : null),
    panel(`Pods on ${plain(row.name)}`, row.state === "away" ? "as it reported last" : "", story.pods.length ? podTable(story.pods, row) : h("p", { class: "empty quiet" }, story.forbidden?.pods ? "No pod that you may see is bound to this node." : "No pod is bound to this node.")),
    story.events ? textPanel("Events", "", events(story.events, "node")) : null,
    textPanel("Conditions", "", conditions(story.conditions)),
    same(isLinkKnown ? `cloudcore nodes --history ${row.name}` : `kubectl describe node ${row.name}`),
  ];
}

/** Return the page of the node whose server this is. */
export function ownNode(story) {
  const rows = story.modules.map((each) => h("tr", { key: each.name }, h("td", {}, mark(each.state === "ready" ? "good" : "bad"), " ", plain(each.name)),
    h("td", {}, plain(each.state), each.reason ? h("div", { class: "quiet" }, plain(each.reason)) : null), h("td", { class: "num" }, String(each.waiting)), h("td", { class: "num" }, String(each.restarts))));
  return [
    h("div", { class: "lead" }, h("h1", { id: "sentence" }, mark(story.link), " ", told(story.sentence)),
      h("p", { class: "quiet" }, "Said by the node itself; the cloud may know less.")),
    panel("Pods", "", story.pods.length ? podTable(story.pods, {}) : h("p", { class: "empty quiet" }, "This node has no pod.")),
    h("div", { class: "cols even" },
      textPanel("The node", "", h("table", {}, h("tbody", {}, Object.entries(story.facts).map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, plain(name)), h("td", {}, plain(value))))))),
      textPanel("Modules of edgecore", "", table("", ["module", "state", "messages that wait", "restarts"], rows))),
    textPanel("Conditions", "", conditions(story.conditions)),
    same("edgecore top"),
    same("edgecore doctor", "What is wrong with this node"),
  ];
}

function history(sessions) {
  if (!sessions.length) return h("p", { class: "empty quiet" }, "The link journal knows no connection of it.");
  return table("", ["from", "lasted", "address", "why it ended"],
    sessions.slice(0, 50).map((each) => h("tr", {}, h("td", {}, time(each.began)),
      h("td", { class: "num" }, each.ended ? duration(each.ended - each.began) : `${since(each.began)}, until now`),
      h("td", {}, plain(each.address || "–")), h("td", { class: "quiet" }, plain(each.ended ? each.reason : "–")))));
}

