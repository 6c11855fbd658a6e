// The pages of the devices: which are silent or not as desired, and what does one report?

import { ask, path } from "./api.js";
import { h } from "./dom.js";
import { steps, valuesTable } from "./history.js";
import { command, conditions, mark, panel, program, same, table, textPanel } from "./parts.js";
import { count, plain, since } from "./words.js";

const ON_NODE = "edgecore";
const MARKS = { "as desired": "good", invalid: "bad", offline: "bad", unhealthy: "bad", "not as desired": "warn", overdue: "warn" };
const TWINS = { "as desired": "good", "another value is reported": "warn", "not confirmed": "warn" };

/** A value with its unit. */
function value(text, unit) { return text ? [plain(text), unit ? ` ${plain(unit)}` : ""] : "–"; }

function age(at) { return at ? `${since(at)} ago` : ""; }

function reported(twin) { return twin.is_reported ? value(twin.reported, twin.unit) : h("span", { class: "quiet" }, "nothing"); }

function deviceTable(rows) {
  return table("devices", ["device", "state", "property", "desired", "reported"],
    rows.map((row) => {
      const old = row.state === "node away" ? "quiet" : "", twin = row.shown;
      return h("tr", { key: `${row.namespace}/${row.name}`, class: old },
        h("td", {}, h("a", { class: "name", href: path("devices", row.namespace, row.name) }, mark(MARKS[row.state]), `${plain(row.namespace)}/${plain(row.name)}`), h("div", { class: "quiet" }, plain(row.model))),
        h("td", {}, plain(row.state), row.why ? h("div", { class: "quiet" }, plain(row.why)) : null),
        h("td", {}, twin ? plain(twin.name) : "–", row.twins > 1 ? h("div", { class: "quiet" }, `and ${row.twins - 1} more`) : null),
        h("td", {}, twin ? value(twin.desired, twin.unit) : "–"),
        h("td", {}, twin ? [reported(twin), h("div", { class: "quiet" }, age(twin.reported_at))] : "–"));
    }));
}

function group(each) {
  const link = each.state && program !== ON_NODE ? `${each.state}${each.state === "away" && each.since ? ` for ${since(each.since)}` : ""}` : "";
  return panel(each.node ? plain(each.node) : "No node", [link ? [mark(each.state), " "] : "", link], deviceTable(each.rows));
}

/** Return the page of the devices; `go` changes the query. */
export function devices(answer, query, go) {
  const field = h("input", { id: "q", type: "search", placeholder: "Search devices  ( / )", "aria-label": "Search devices: name, namespace, node, model, state", value: query, oninput: (event) => go(event.target.value) });
  const none = query ? "No device has all of these words in its name, node, model or state." : "A Device appears here when it is applied.";
  return [
    h("div", { class: "lead" }, h("h1", { id: "sentence" }, plain(answer.sentence)),
      h("p", { class: "quiet" }, "A device whose node is away counts as one that cannot be heard, not as one that fails. Times are by the clocks of the nodes.")),
    h("div", { class: "tools plain" }, field),
    answer.groups.length ? answer.groups.map(group) : h("p", { class: "empty quiet" }, none),
    answer.more ? h("p", { class: "empty quiet" }, `${count(answer.more, "more device")}: search for more words`) : null,
    answer.is_cut ? h("p", { class: "empty quiet" }, "There are more devices, which the page does not read.") : null,
    same(program === ON_NODE ? "edgecore devices list" : "cloudcore get devices,devicestatuses -A"),
  ];
}

function twinRow(twin, read) {
  const confirmed = twin.observed_at ? h("div", { class: "quiet" }, `confirmed ${twin.observed === twin.desired ? "" : `${plain(twin.observed)} `}${age(twin.observed_at)}`) : null;
  return h("tr", { key: twin.name },
    h("td", {}, plain(twin.name), h("div", { class: "quiet" }, [twin.type, twin.access].filter(Boolean).map(plain).join(" · "))),
    h("td", {}, value(twin.desired, twin.unit), confirmed), h("td", {}, reported(twin), h("div", { class: "quiet" }, age(twin.reported_at))),
    h("td", {}, twin.agrees ? [TWINS[twin.agrees] ? [mark(TWINS[twin.agrees]), " "] : "", plain(twin.agrees)] : h("span", { class: "quiet" }, "nothing is desired")),
    h("td", {}, h("button", { type: "button", "aria-label": `Read the history of ${plain(twin.name)}`, onclick: () => read(twin.name) }, "Read")));
}

/** When a history changes: with another reported value, and with the link of the node. */
function versionOf(story, name) { return `${story.twins.find((each) => each.name === name)?.reported_at} ${story.node_state}`; }

async function readHistory(story, name, histories) {
  const { row } = story, version = versionOf(story, name);
  try {
    histories.set(name, { ...await ask(["history", row.namespace, row.name, name].map(encodeURIComponent).join("/")), version });
  } catch (error) {
    histories.set(name, { values: [], kept: `The history cannot be read: ${error.message}`, version });
  }
}

/** Read again the open histories that have changed. */
export async function readAgain(story, histories) {
  for (const [name, { version }] of histories) if (version !== versionOf(story, name)) await readHistory(story, name, histories);
}

/** A word of a command, for a POSIX shell. */
function quoted(word) { return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`; }

function historyPanel(row, name, history, unit) {
  return textPanel(`History of ${plain(name)}`, plain(history.kept), history.values.length ? [steps(history), valuesTable(history, unit)] : h("p", { class: "empty quiet" }, "No value is kept."),
    h("div", { class: "same body" }, command(`${program} devices history ${row.namespace}/${row.name} ${quoted(name)}`)));
}

/** Return the page of a device. `histories` has the histories that were asked for, by property. */
export function device(story, histories, paint) {
  const read = (name) => readHistory(story, name, histories).then(paint), units = new Map(story.twins.map((each) => [each.name, each.unit]));
  const { row } = story, old = row.state === "node away";
  return [
    h("div", { class: "lead" }, h("h1", { id: "sentence" }, plain(story.sentence)),
      h("p", { class: "quiet" }, row.node ? ["on ", h("a", { href: path("nodes", row.node) }, plain(row.node)), story.node_state && program !== ON_NODE ? `, ${story.node_state}` : ""] : "without a node",
        row.model ? ` · model ${plain(row.model)}` : "", story.protocol ? ` · protocol ${plain(story.protocol)}` : "",
        ` · reported state: ${plain(story.reported_state) || "none"}`, story.last_online ? ` · last online ${plain(story.last_online)}` : "")),
    panel("Properties", old ? "as its node reported last" : "times by the clock of its node", story.twins.length ? table(old ? "devices quiet" : "devices", ["property", "desired", "reported", "does it have it?", "history"], story.twins.map((twin) => twinRow(twin, read)))
      : h("p", { class: "empty quiet" }, "The Device has no properties."), story.more ? h("p", { class: "empty quiet" }, `and ${story.more} more`) : null),
    [...histories].map(([name, history]) => historyPanel(row, name, history, units.get(name))),
    story.conditions.length ? textPanel("Conditions", "", conditions(story.conditions)) : null,
    same(program === ON_NODE ? `edgecore devices get ${row.namespace}/${row.name}` : `cloudcore describe devicestatus ${row.name} -n ${row.namespace}`),
    same(`edgecore trace explain device ${row.namespace}/${row.name}`, "Where a desired value is, on its node"),
  ];
}
