// The page of a pod: why does it not run, or how has it come to run?

import { askText, path } from "./api.js";
import { changesOf } from "./changes.js";
import { h } from "./dom.js";
import { allowed, command, conditions, events, mark, panel, program, same, table, textPanel, time, told } from "./parts.js";
import { plain, seconds, since } from "./words.js";

const MARKS = { runs: "good", ended: "good", fails: "bad", waits: "warn", ending: "warn", unknown: "never" };

function step(each) {
  return h("li", { class: each.is_cause ? "cause" : "" }, time(seconds(each.at)), h("span", { class: "who" }, plain(each.who)),
    h("span", {}, plain(each.text), each.is_cause ? h("b", { class: "bad" }, "  ◆ the cause") : null));
}

/** Return the page of a pod. `logs` has the logs that were asked for, by container. */
export function pod(story, logs, paint) {
  const { row, answer } = story;
  return [
    h("div", { class: "lead" }, h("h1", { id: "sentence" }, mark(MARKS[answer.state]), " ", `${plain(answer.sentence)}.`),
      h("p", { class: "quiet" }, row.node ? ["on ", h("a", { href: path("nodes", row.node) }, plain(row.node))] : "without a node",
        row.owner ? ` · ${plain(row.owner)}` : "", ` · ${plain(row.status)}, ${plain(row.ready)} ready`, row.created ? ` · ${since(seconds(row.created) || 0)} old` : "", program === "cloudcore" ? [" · ", changesOf(`kind:pod ns:${row.namespace} name:${row.name}`, "What changed")] : null),
      answer.notes.map((each) => h("p", { class: "warn advice" }, told(each)))),
    answer.remedy.length ? panel("To do", "", h("ul", { class: "remedy" }, answer.remedy.map((each) => h("li", {}, /^(cloudcore|edgecore|kubectl) /.test(each) ? command(each) : told(each))))) : null,
    panel("How it came to this", answer.left_out ? `${answer.left_out} earlier steps are left out` : "",
      answer.steps.length ? h("ol", { class: "chain" }, answer.steps.map(step)) : h("p", { class: "empty quiet" }, "No step is known.")),
    answer.last_lines ? panel(`The last lines of ${plain(answer.last_lines.container)}`, "before it ended", h("pre", { class: "log", tabindex: "0" }, log(answer.last_lines.lines.join("\n")))) : null,
    panel("Containers", "", table("", ["container", "state", "restarts", "image", "log", "shell"],
      story.containers.map((each) => h("tr", {},
        h("td", {}, mark(each.is_ready || (each.is_init && each.state === "Completed") ? "good" : "bad"), " ", plain(each.name), each.is_init ? h("span", { class: "quiet" }, " (init)") : null),
        h("td", { title: plain(each.message) }, plain(each.state), each.message ? h("div", { class: "quiet" }, plain(each.message)) : null),
        h("td", { class: "num" }, String(each.restarts)), h("td", { class: "mono" }, plain(each.image)),
        h("td", {}, h("button", { type: "button", onclick: () => readLog(row, each.name, logs, paint) }, logs.has(each.name) ? "Read again" : "Read")), h("td", {}, shell(row, each)))))),
    [...logs].map(([name, text]) => panel(`Log of ${plain(name)}`, "the last 500 lines", h("pre", { class: "log", tabindex: "0" }, log(text)), command(`${program} logs ${row.namespace}/${row.name} -c ${name}`))),
    textPanel("Events", "", events(story.events, "pod")),
    textPanel("Conditions", "", conditions(story.conditions)),
    same(`${program} why pod ${row.namespace}/${row.name}`),
  ];
}

/** The way to a shell: the same in a terminal, where the page may open none. */
function shell(row, container) {
  if (!allowed.includes("exec")) return h("button", { type: "button", disabled: true, title: plain(`This page is read only: ${program} page --allow exec. In a terminal: ${program} exec -it ${row.namespace}/${row.name} -c ${container.name} -- sh`) }, "Open");
  if (container.state !== "running") return h("button", { type: "button", disabled: true, title: "The container does not run" }, "Open");
  return h("a", { href: path("shell", row.namespace, row.name, container.name), "aria-label": `Open a shell in ${plain(container.name)}` }, "Open");
}

async function readLog(row, container, logs, paint) {
  try {
    logs.set(container, await askText(["log", row.namespace, row.name, container].map(encodeURIComponent).join("/")));
  } catch (error) {
    logs.set(container, `The log cannot be read: ${error.message}`);
  }
  paint();
}

// Of escape sequences nothing remains but the text: colours of a log would be one more way to hide something.
function log(text) {
  if (!text) return h("span", { class: "quiet" }, "The log is empty.");
  return text.replace(/\u001b\[[0-9;]*m/g, "").split("\n").map(plain).join("\n");
}
