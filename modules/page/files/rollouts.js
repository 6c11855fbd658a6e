// The page of the workloads: which do not run everywhere, where, and why?

import { path } from "./api.js";
import { h } from "./dom.js";
import { mark, panel, same } from "./parts.js";
import { count, plain } from "./words.js";

const PARTS = [["run", "run it", "up", "runs it"], ["under_way", "at it", "way"], ["fail", "fail", "bad", "fails"], ["unheard", "have not heard", "gone", "has not heard"]];

/** The four parts of a workload's pods, as a bar; the words stand beside it. */
function four(row) {
  const total = PARTS.reduce((sum, [part]) => sum + row[part], 0) || 1;
  const words = PARTS.filter(([part]) => row[part]).map(([part, word, , one]) => `${row[part]} ${row[part] === 1 && one || word}`).join(" · ");
  return [h("span", { class: "strip four", role: "img", "aria-label": words }, PARTS.filter(([part]) => row[part]).map(([part, , kind]) => h("i", { class: kind, css: { width: `${(row[part] * 100 / total).toFixed(2)}%` } }))), words];
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

/** Return the page of the workloads. */
export function rollouts(answer) {
  const rows = answer.rows.map((row) => {
    const [bar, words] = four(row);
    return panel(`${plain(row.namespace)} · ${plain(row.owner)}`, row.images.map(plain).join(", "), h("div", { class: "body" }, bar, h("p", {}, words), lack(row), failing(row)));
  });
  return [
    h("div", { class: "lead" }, h("h1", { id: "sentence" }, plain(answer.sentence)), h("p", { class: "quiet" }, "A pod whose node is away counts as one that has not heard, not as one that fails.")),
    rows.length ? rows : h("p", { class: "empty quiet" }, "A Deployment, DaemonSet, StatefulSet or Job appears here with its first pod."),
    answer.more ? h("p", { class: "empty quiet" }, `${count(answer.more, "more workload")}`) : null,
    same("cloudcore get pods -A -o wide"),
  ];
}
