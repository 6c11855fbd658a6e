// Search and filters.

class Filters {
  constructor(view, box) {
    Object.assign(this, { view, hidden: { sort: new Set(), lane: new Set() }, onlyFailed: false });
    const { trace } = view;
    const counts = { sort: new Uint32Array(trace.sorts.length), lane: new Uint32Array(trace.lanes.length) };
    let failed = 0;
    for (let i = 0; i < trace.count; i++) {
      counts.sort[trace.sort[i]]++;
      counts.lane[trace.target[i]]++;
      failed += trace.failed[i];
    }
    trace.sorts.forEach((name, k) => { if (counts.sort[k]) box.append(this.chip("sort", k, name, counts.sort[k])); });
    box.append(element("span", { class: "gap" }));
    trace.lanes.forEach((lane, k) => box.append(this.chip("lane", k, `to ${lane.label}`, counts.lane[k])));
    box.append(element("span", { class: "gap" }), this.failedChip(failed));
  }

  chip(kind, number, name, count) {
    const chip = element("button", { type: "button", class: "chip", "aria-pressed": true }, name,
      element("span", { class: "count" }, count.toLocaleString("en")));
    chip.addEventListener("click", () => {
      const set = this.hidden[kind];
      if (!set.delete(number)) set.add(number);
      chip.setAttribute("aria-pressed", !set.has(number));
      this.apply();
    });
    return chip;
  }

  failedChip(count) {
    const chip = element("button", { type: "button", class: "chip only", "aria-pressed": false, id: "only-failed" },
      "only what failed", element("span", { class: "count" }, count.toLocaleString("en")));
    chip.addEventListener("click", () => {
      this.onlyFailed = !this.onlyFailed;
      chip.setAttribute("aria-pressed", this.onlyFailed);
      this.apply();
    });
    return chip;
  }

  apply() {
    const { trace } = this.view;
    const sorts = Uint8Array.from(trace.sorts, (_, k) => !this.hidden.sort.has(k));
    const lanes = Uint8Array.from(trace.lanes, (_, k) => !this.hidden.lane.has(k));
    this.view.show((i) => sorts[trace.sort[i]] && lanes[trace.target[i]] && (!this.onlyFailed || trace.failed[i]));
  }
}

const COLUMNS = ["verb", "about", "id", "parent", "outcome", "reason"];

class Search {
  constructor(view, field, said) {
    Object.assign(this, { view, field, said, turn: 0 });
    field.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.run(), 90);
    });
  }

  async run() {
    const turn = ++this.turn;
    const words = this.field.value.trim().split(/\s+/).filter(Boolean);
    if (!words.length) { this.said.textContent = ""; this.view.find(null); return; }
    const hits = new Uint8Array(this.view.trace.count).fill(1);
    for (const word of words) {
      if (word.startsWith("body:")) await this.narrowByBody(hits, word.slice(5), () => turn === this.turn);
      else this.narrow(hits, word);
      if (turn !== this.turn) return;
    }
    this.view.find(hits);
    const count = this.view.shown.reduce((sum, i) => sum + hits[i], 0);
    this.said.textContent = count.toLocaleString("en");
  }

  narrow(hits, word) {
    const { trace } = this.view;
    const [, key, value] = /^(from|to|op|is):(.*)$/.exec(word) ?? [null, "", word];
    const wanted = value.toLowerCase();
    const holds = this.test(trace, key, wanted);
    for (let i = 0; i < trace.count; i++) if (hits[i] && !holds(i)) hits[i] = 0;
  }

  // Each text is matched once, and events by the numbers of their texts.
  test(trace, key, wanted) {
    const has = (name) => name.toLowerCase().includes(wanted);
    const lanes = Uint8Array.from(trace.lanes, (lane) => has(lane.name) || has(lane.label));
    if (key === "from") return (i) => lanes[trace.source[i]];
    if (key === "to") return (i) => lanes[trace.target[i]];
    if (key === "is") return (i) => (wanted === "failed" ? trace.failed[i] : has(sortOf(trace, i)));
    const texts = Uint8Array.from(trace.texts, has);
    if (key === "op") return (i) => texts[trace.verb[i]];
    const columns = COLUMNS.map((name) => trace[name]);
    return (i) => columns.some((column) => texts[column[i]]) || lanes[trace.source[i]] || lanes[trace.target[i]];
  }

  async narrowByBody(hits, wanted, goOn) {
    const { trace } = this.view;
    const needle = wanted.toLowerCase();
    const decoder = new TextDecoder();
    for (let i = 0, known = NOBODY, chunk = null; i < trace.count && goOn(); i++) {
      if (!hits[i]) continue;
      if (trace.chunk[i] !== known) {
        known = trace.chunk[i];
        chunk = trace.length[i] ? await chunkOf(trace, known) : null;
        this.said.textContent = `${Math.floor(i / trace.count * 100)} %`;
      }
      const body = trace.length[i] ? decoder.decode(chunk.subarray(trace.start[i], trace.start[i] + trace.length[i])) : "";
      if (!body.toLowerCase().includes(needle)) hits[i] = 0;
    }
  }
}
