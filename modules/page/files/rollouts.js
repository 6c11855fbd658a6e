// The page of the workloads and of the nodes' jobs: which do not run everywhere, or have stopped, where, and why?

import { path } from "./api.js";
import { h } from "./dom.js";
import { jobs } from "./jobs.js";
import { bar, mark, panel, same } from "./parts.js";
import { count, plain } from "./words.js";

const PARTS = [["run", "run it", "up", "runs it"], ["under_way", "at it", "way"], ["fail", "fail", "bad", "fails"], ["unheard", "have not heard", "gone", "has not heard"]];

/** The four parts of a workload's pods, as a bar; the words stand beside it. */
function four(row) {
  const words = PARTS.filter(([part]) => row[part]).map(([part, word, , one]) => `${row[part]} ${row[part] === 1 && one || word}`).join(" · ");
  return [bar(PARTS.map(([part, , kind]) => [kind, row[part]]), words), words];
}

function failing(row) {
  return row.failing.map((each) => h("p", {}, mark("bad"), " ", h("b", {}, plain(each.status)), ` on ${count(each.pods.length + each.more, "pod")}`,
    each.shared ? `, all ${plain(each.shared)}` : "", ": ",
    each.pods.map((pod, place) => [place ? ", " : "", h("a", { href: path("pods", pod.namespace, pod.name) }, plain(pod.name)), pod.node ? ` on ${plain(pod.node)}` : ""]),
    each.more ? `, and ${count(each.more, "more pod")}` : "", each.why ? h("span", { class: "quiet" }, ` · ${plain(each.why)}`) : null));
}

function lack(row) {
  if (!row.lack) return null;
  const what = row.missing ? `${count(row.missing, "pod")} cannot be made` : "The rollout has stopped";
  return h("p", {}, mark("bad"), " ", h("b", {}, what), ": ", plain(row.lack));
}

/** Return the page of the workloads and of the jobs. */
export function rollouts({ workloads, jobs: found }) {
  const rows = (workloads?.rows || []).map((row) => {
    const [drawn, words] = four(row);
    return panel(`${plain(row.namespace)} · ${plain(row.owner)}`, row.images.map(plain).join(", "), h("div", { class: "body" }, drawn, h("p", {}, words), lack(row), failing(row)));
  });
  return [
    h("div", { class: "lead" }, h("h1", { id: "sentence" }, plain(workloads ? workloads.sentence : found.sentence || "There are no jobs of nodes.")),
      workloads ? h("p", { class: "quiet" }, "A pod whose node is away counts as one that has not heard, not as one that fails.") : null),
    found && (found.rows.length || !workloads) ? jobs(found) : null,
    rows.length || !workloads ? rows : h("p", { class: "empty quiet" }, "A Deployment, DaemonSet, StatefulSet or Job appears here with its first pod."),
    workloads?.more ? h("p", { class: "empty quiet" }, `${count(workloads.more, "more workload")}`) : null,
    workloads ? same("cloudcore get pods -A -o wide") : null,
    found?.rows.length ? same("cloudcore upgrade status") : null,
  ];
}
