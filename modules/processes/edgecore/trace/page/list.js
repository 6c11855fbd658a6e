// The list of messages. Only visible rows are elements.

const ROW = 24;
const TALLEST = 15_000_000; // browsers give up beyond some 30 million pixels; then rows come closer than they are high

class List {
  constructor(view, box, space) {
    Object.assign(this, { view, box, space, order: view.shown });
    box.addEventListener("scroll", () => this.want(), { passive: true });
    box.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row) view.choose(Number(row.dataset.event));
    });
    box.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.want()).observe(box);
    view.listen((what) => this.changed(what));
    this.reorder();
  }

  changed(what) {
    if (what === "shown" || what === "hits") this.reorder();
    if (what === "chosen") this.bring();
    if (what === "range") this.follow();
    this.want();
  }

  reorder() {
    const { shown, hits } = this.view;
    this.order = hits ? shown.filter((i) => hits[i]) : shown;
    this.space.style.height = `${Math.min(this.order.length * ROW, TALLEST)}px`;
    this.want();
  }

  // Rows for each pixel of scrolling: 1/ROW but for very long traces.
  get pace() { return this.order.length / Math.max(Math.min(this.order.length * ROW, TALLEST), 1); }

  placeOf(i) {
    const k = firstWhere(this.order.length, (place) => this.order[place] >= i);
    return this.order[k] === i ? k : NOBODY;
  }

  bring() {
    const k = this.placeOf(this.view.chosen);
    if (k === NOBODY) return;
    const top = k / this.pace, { scrollTop, clientHeight } = this.box;
    if (top < scrollTop || top + ROW > scrollTop + clientHeight) this.box.scrollTop = top - clientHeight / 2;
  }

  // A change of the time range scrolls the list there, unless the selected message is visible already.
  follow() {
    const { view: { trace, chosen, from, to } } = this;
    if (chosen !== NOBODY && trace.end[chosen] >= from && trace.sent[chosen] <= to) return;
    this.box.scrollTop = firstWhere(this.order.length, (k) => trace.sent[this.order[k]] >= from) / this.pace;
  }

  want() {
    if (this.wanted) return;
    this.wanted = true;
    requestAnimationFrame(() => { this.wanted = false; this.fill(); });
  }

  fill() {
    const { scrollTop, clientHeight } = this.box;
    const first = Math.max(0, Math.floor(scrollTop * this.pace) - 2);
    const last = Math.min(this.order.length, first + Math.ceil(clientHeight / ROW) + 4);
    const top = this.pace * ROW > 1.0001 ? scrollTop - 2 * ROW : first * ROW;
    const rows = [];
    for (let k = first; k < last; k++) rows.push(this.row(this.order[k], top + (k - first) * ROW));
    this.space.replaceChildren(...rows);
    const { chosen } = this.view;
    if (document.getElementById(`row-${chosen}`)) this.box.setAttribute("aria-activedescendant", `row-${chosen}`);
    else this.box.removeAttribute("aria-activedescendant");
  }

  row(i, top) {
    const { view: { trace, chosen, linked } } = this;
    const { failed, sent, taken, end, source, target, lanes } = trace;
    const away = source[i] !== target[i];
    const row = element("div", {
      id: `row-${i}`, role: "option", "aria-selected": i === chosen,
      class: `row${failed[i] ? " failed" : ""}${linked.has(i) ? " linked" : ""}`,
    },
      element("span", { class: "time" }, sent[i].toFixed(6)),
      element("span", {}, (away ? `${lanes[source[i]].label} → ` : "") + lanes[target[i]].label),
      element("span", { class: `verb` }, text(trace, "verb", i)),
      element("span", {}, text(trace, "about", i)),
      element("span", { class: "number" }, taken[i] > sent[i] ? span(taken[i] - sent[i]) : ""),
      element("span", { class: "number" }, end[i] > taken[i] ? span(end[i] - taken[i]) : ""),
      element("span", { class: "outcome" }, text(trace, "outcome", i)));
    row.dataset.event = i;
    row.style.top = `${top}px`;
    row.children[2].style.color = `var(--${COLOURS[this.view.colour[i]]})`;
    return row;
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.box.clientHeight / ROW) - 1);
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined || !this.order.length) return;
    event.preventDefault();
    event.stopPropagation();
    const at = this.view.chosen === NOBODY ? -1 : this.placeOf(this.view.chosen);
    this.view.choose(this.order[Math.min(Math.max(at + by, 0), this.order.length - 1)]);
  }
}
