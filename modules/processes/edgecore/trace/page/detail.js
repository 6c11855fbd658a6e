// Details of the selected message, or of the trace without a selection.

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

class Detail {
  constructor(view, box) {
    Object.assign(this, { view, box });
    view.listen((what) => { if (what === "chosen") this.fill(); });
    this.fill();
  }

  async fill() {
    const { view: { trace, chosen } } = this;
    this.box.scrollTop = 0;
    if (chosen === NOBODY) { this.box.replaceChildren(...this.overview()); return; }
    const whole = element("pre", { id: "whole" }, "…");
    this.box.replaceChildren(...this.head(chosen), element("h3", {}, "Causes and effects"), this.steps(chosen),
      element("h3", {}, "Whole message"), whole);
    const body = await bodyOf(trace, chosen);
    if (this.view.chosen !== chosen) return;
    whole.replaceChildren(...pretty(body));
    const inner = innerJson(body);
    if (inner) this.box.append(element("h3", {}, "Content, opened"), element("pre", {}, ...pretty(inner)));
  }

  head(i) {
    const { trace } = this.view;
    const { lanes, source, target, sent, taken, end, depth, size } = trace;
    const away = source[i] !== target[i];
    const parts = [
      element("h2", {}, `${text(trace, "verb", i)} ${text(trace, "about", i)}`),
      element("p", { class: "quiet" },
        `${sortOf(trace, i)} · ` + (away ? `${lanes[source[i]].label} → ` : "") + lanes[target[i]].label),
    ];
    if (trace.failed[i]) {
      parts.push(element("p", { class: "bad" }, [text(trace, "outcome", i), text(trace, "reason", i)].join(": ")));
    }
    const facts = element("dl", {});
    const fact = (name, value, kind = "") => {
      if (value) facts.append(element("dt", {}, name), element("dd", { class: kind }, value));
    };
    fact("at", `${sent[i].toFixed(6)} s · ${wall(trace, sent[i]).toISOString().replace("T", " ")}`);
    fact("waited", taken[i] > sent[i] ? `${span(taken[i] - sent[i])}` + (depth[i] > 0 ? ` behind ${depth[i]}` : "") : "");
    fact("took", end[i] > taken[i] ? span(end[i] - taken[i]) : "");
    fact("outcome", text(trace, "outcome", i));
    fact("reason", trace.failed[i] ? "" : text(trace, "reason", i));
    fact("way", text(trace, "way", i));
    fact("size", size[i] ? bytes(size[i]) : "");
    fact("id", text(trace, "id", i), "code");
    fact("answers", text(trace, "parent", i), "code");
    parts.push(facts);
    return parts;
  }

  // The causes from the first one on, the event, and its direct effects.
  steps(i, most = 40) {
    const { trace } = this.view;
    const list = element("ol", { class: "steps" });
    const causes = [];
    for (let at = trace.cause[i]; at !== NOBODY && causes.length < most && !causes.includes(at); at = trace.cause[at]) causes.unshift(at);
    causes.forEach((cause) => list.append(this.step(cause, i)));
    list.append(this.step(i, i));
    let count = 0;
    for (let effect = trace.effects.first[i]; effect !== NOBODY; effect = trace.effects.next[effect]) {
      if (++count <= most) list.append(this.step(effect, i));
    }
    if (count > most) list.append(element("li", { class: "quiet" }, `and ${count - most} more effects`));
    return list;
  }

  step(i, chosen) {
    const { trace } = this.view;
    const away = trace.sent[i] - trace.sent[chosen];
    const target = trace.lanes[trace.target[i]].label;
    const button = element("button", { type: "button" },
      element("span", { class: "delay" }, i === chosen ? "this" : (away < 0 ? "−" : "+") + span(Math.abs(away))),
      element("span", { class: "what" }, `${target}: ${text(trace, "verb", i)} ${text(trace, "about", i)}`));
    button.addEventListener("click", () => this.view.choose(i));
    return element("li", i === chosen ? { class: "this" } : {}, button);
  }

  overview() {
    const { trace } = this.view;
    const facts = element("dl", {});
    for (const [name, value] of [["node", trace.node], ["written by", trace.program],
      ["began", wall(trace, 0).toISOString().replace("T", " ").slice(0, 23) + " UTC"],
      ["lasts", span(trace.last - trace.first)], ["events", trace.count.toLocaleString("en")]]) {
      facts.append(element("dt", {}, name), element("dd", {}, value));
    }
    const names = { answer: "answer", call: "call of the runtime", commit: "commit of the store", update: "update, patch" };
    const legend = element("div", { class: "legend" });
    for (const colour of COLOURS) {
      const swatch = element("i", {});
      swatch.style.background = `var(--${colour})`;
      legend.append(swatch, element("span", {}, names[colour] ?? colour));
    }
    const keys = element("div", { class: "keys" });
    for (const [key, meaning] of [["← →", "move"], ["+ −", "zoom; the wheel does so at the pointer"], ["0", "whole trace"],
      [", .", "message before, after"], ["/", "search"], ["n N", "next hit, hit before"], ["c", "go to the cause"],
      ["Enter", "read the chosen message"], ["Esc", "let go of it"]]) {
      keys.append(element("kbd", {}, key), element("span", {}, meaning));
    }
    const parts = [element("h2", {}, trace.title)];
    return [...parts, facts, element("h3", {}, "Colours"), legend, element("h3", {}, "Keys"), keys,
      element("h3", {}, "Reading it"), element("p", { class: "quiet" },
        "An arrow is a message; the thin bar is its time in the inbox, the thick one its handling. The area at the foot of a "
        + "lane is the length of its inbox. Click a message for all of it, with what caused it and what came of it.")];
  }
}

// KubeEdge sends some contents as JSON within a string; empty for other contents.
function innerJson(body) {
  try {
    const { content } = JSON.parse(body);
    return typeof content === "string" && typeof JSON.parse(content) === "object" ? content : "";
  } catch { return ""; }
}

// JSON text, indented and coloured; other text unchanged. Redacted values are highlighted.
function pretty(body) {
  let laidOut;
  try { laidOut = JSON.stringify(JSON.parse(body), null, 2); } catch { return [body]; }
  const parts = [];
  const token = /("(?:\\.|[^"\\])*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
  let last = 0;
  for (const match of laidOut.matchAll(token)) {
    if (parts.length > 40_000) break;
    parts.push(laidOut.slice(last, match.index));
    const kind = match[2] ? "key" : !match[1] ? "word" : match[1].startsWith('"redacted:') ? "hashed" : "text";
    parts.push(element("span", { class: kind }, match[1] ?? match[0]));
    last = match.index + (match[1] ?? match[0]).length;
  }
  return [...parts, laidOut.slice(last)];
}
