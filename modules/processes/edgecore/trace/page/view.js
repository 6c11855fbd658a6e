// The view: the time range, the shown events, and the selection. Other parts listen to its changes.

class View {
  constructor(trace) {
    this.trace = trace;
    this.listeners = [];
    this.chosen = NOBODY;
    this.linked = new Set();
    this.hits = null;
    const margin = Math.max((trace.last - trace.first) * 0.02, 1e-4);
    this.bounds = [trace.first - margin, trace.last + margin];
    [this.from, this.to] = this.bounds;
    this.colour = Uint8Array.from({ length: trace.count }, (_, i) => colourOf(trace, i));
    this.row = rowsOf(trace);
    this.queues = queuesOf(trace);
    this.show(() => true);
  }

  listen(listener) { this.listeners.push(listener); }

  changed(what) { for (const listener of this.listeners) listener(what); }

  // Shows the events that pass the filter, with the latest end so far of each, so that a range is found by bisection.
  show(passes) {
    const { count, end } = this.trace;
    const shown = new Int32Array(count);
    let size = 0;
    for (let i = 0; i < count; i++) if (passes(i)) shown[size++] = i;
    this.shown = shown.subarray(0, size);
    this.reach = new Float64Array(size);
    let furthest = -Infinity;
    for (let k = 0; k < size; k++) {
      furthest = Math.max(furthest, end[this.shown[k]]);
      this.reach[k] = furthest;
    }
    this.changed("shown");
  }

  // Indices in `shown` of the first event that may be visible and of the first one after the range.
  range() {
    const { sent } = this.trace;
    return [
      firstWhere(this.shown.length, (k) => this.reach[k] >= this.from),
      firstWhere(this.shown.length, (k) => sent[this.shown[k]] > this.to),
    ];
  }

  placeOf(i) {
    const k = firstWhere(this.shown.length, (place) => this.shown[place] >= i);
    return this.shown[k] === i ? k : NOBODY;
  }

  look(from, to) {
    const [low, high] = this.bounds;
    const width = Math.min(Math.max(to - from, 2e-6), high - low);
    this.from = Math.min(Math.max(from, low), high - width);
    this.to = this.from + width;
    this.changed("range");
  }

  move(share) {
    const by = (this.to - this.from) * share;
    this.look(this.from + by, this.to + by);
  }

  zoom(factor, at = (this.from + this.to) / 2) {
    this.look(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  choose(i, { bring = true } = {}) {
    this.chosen = i;
    this.linked = i === NOBODY ? new Set() : chainOf(this.trace, i);
    if (i !== NOBODY && bring) this.bring(i);
    this.changed("chosen");
  }

  bring(i) {
    const { sent, end } = this.trace;
    const width = this.to - this.from;
    if (sent[i] >= this.from + width * 0.05 && end[i] <= this.to - width * 0.05) return;
    this.look(sent[i] - width * 0.4, sent[i] + width * 0.6);
  }

  step(by) {
    const at = this.chosen === NOBODY ? this.range()[0] - by : this.placeOf(this.chosen);
    const k = Math.min(Math.max(at + by, 0), this.shown.length - 1);
    if (this.shown.length) this.choose(this.shown[k]);
  }

  find(hits) {
    this.hits = hits;
    this.changed("hits");
  }

  nextHit(by) {
    const order = this.shown;
    if (!this.hits || !order.length) return;
    let k = this.chosen === NOBODY ? (by > 0 ? -1 : order.length) : this.placeOf(this.chosen);
    for (let tried = 0; tried < order.length; tried++) {
      k = (k + by + order.length) % order.length;
      if (this.hits[order[k]]) { this.choose(order[k]); return; }
    }
  }
}

function firstWhere(length, holds) {
  let low = 0, high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle; else low = middle + 1;
  }
  return low;
}

// All causes of an event, and its effects up to a limit that is still readable.
function chainOf(trace, i, limit = 5000) {
  const chain = new Set();
  for (let at = i; at !== NOBODY && !chain.has(at); at = trace.cause[at]) chain.add(at);
  const todo = [i];
  const { first, next } = trace.effects;
  while (todo.length && chain.size < limit) {
    for (let effect = first[todo.pop()]; effect !== NOBODY; effect = next[effect]) {
      if (!chain.has(effect)) { chain.add(effect); todo.push(effect); }
    }
  }
  return chain;
}

// Simultaneous events of one lane are drawn below each other.
function rowsOf(trace, most = 6) {
  const ends = trace.lanes.map(() => []);
  const rows = new Uint8Array(trace.count);
  for (let i = 0; i < trace.count; i++) {
    const lane = ends[trace.target[i]];
    let row = lane.findIndex((end) => end <= trace.taken[i]);
    if (row < 0) row = Math.min(lane.length, most - 1);
    lane[row] = Math.max(lane[row] ?? 0, trace.end[i]);
    rows[i] = row;
  }
  for (const lane of trace.lanes) lane.rows = Math.max(1, ends[lane.number].length);
  return rows;
}

// The length of each lane's inbox over time. A sent event has the number of waiting items; an inbox is first in, first
// out, so when an event is taken, the waiting items are those that were sent after it.
function queuesOf(trace) {
  const changes = trace.lanes.map(() => []);
  const came = new Uint32Array(trace.lanes.length);
  for (let i = 0; i < trace.count; i++) {
    if (trace.depth[i] < 0) continue;
    const rank = ++came[trace.target[i]];
    changes[trace.target[i]].push([trace.sent[i], rank, trace.depth[i] + 1], [trace.taken[i], rank, -1]);
  }
  return changes.map(queueOf);
}

function queueOf(changes) {
  changes.sort((one, other) => one[0] - other[0]);
  const depths = new Uint32Array(changes.length);
  let last = 0, most = 0;
  changes.forEach(([, rank, waiting], k) => {
    if (waiting > 0) last = rank;
    depths[k] = waiting > 0 ? waiting : Math.max(last - rank, 0);
    most = Math.max(most, depths[k]);
  });
  return { times: Float64Array.from(changes, (change) => change[0]), depths, most };
}
