// The timeline. Few events are drawn one by one with labels, many as densities: a frame costs one pass over the visible
// events.

const DETAILED = 2500;
const AXIS = 22;
const QUEUE = 16;

class Timeline {
  constructor(view, canvas, gutter) {
    Object.assign(this, { view, canvas, gutter, wanted: false, hover: NOBODY });
    this.pen = canvas.getContext("2d", { alpha: false });
    new ResizeObserver(() => this.resize()).observe(canvas);
    view.listen(() => this.want());
  }

  resize() {
    const { clientWidth, clientHeight } = this.canvas;
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(clientWidth * scale);
    this.canvas.height = Math.round(clientHeight * scale);
    this.pen.setTransform(scale, 0, 0, scale, 0, 0);
    Object.assign(this, { width: clientWidth, height: clientHeight });
    this.layOut();
    this.paint();
  }

  layOut() {
    const { lanes } = this.view.trace;
    const weights = lanes.map((lane) => 2 + lane.rows);
    const unit = (this.height - AXIS) / weights.reduce((sum, weight) => sum + weight, 0);
    let top = AXIS;
    this.gutter.replaceChildren();
    lanes.forEach((lane, number) => {
      Object.assign(lane, { top, height: unit * weights[number] });
      top += lane.height;
      const most = this.view.queues[number].most;
      const box = element("div", {}, element("b", {}, lane.label),
        element("span", {}, most ? `queue ≤ ${most}` : ""));
      Object.assign(box.style, { top: `${lane.top}px`, height: `${lane.height}px` });
      this.gutter.append(box);
    });
  }

  want() {
    if (this.wanted) return;
    this.wanted = true;
    requestAnimationFrame(() => { this.wanted = false; this.paint(); });
  }

  x(time) { return (time - this.view.from) / (this.view.to - this.view.from) * this.width; }

  time(x) { return this.view.from + x / this.width * (this.view.to - this.view.from); }

  // The position of an event's bar: centre of its row in the target's lane.
  y(i) { return this.rowY(this.view.trace.lanes[this.view.trace.target[i]], this.view.row[i]); }

  rowY(lane, row) {
    const room = lane.height - QUEUE - 10;
    return lane.top + 8 + room * (row + 0.5) / lane.rows;
  }

  thickness(lane) { return Math.max(2, Math.min(14, (lane.height - QUEUE - 10) / lane.rows - 3)); }

  paint() {
    if (!this.width) return;
    const style = getComputedStyle(document.documentElement);
    this.ink = (name) => style.getPropertyValue(`--${name}`);
    this.colours = COLOURS.map(this.ink);
    const { pen } = this;
    pen.fillStyle = this.ink("paper");
    pen.fillRect(0, 0, this.width, this.height);
    this.paintAxis();
    this.paintLanes();
    const [low, high] = this.view.range();
    if (high - low > DETAILED) this.paintDensity(low, high); else this.paintEach(low, high);
    this.paintChosen();
  }

  paintAxis() {
    const { pen, view } = this;
    const step = niceStep((view.to - view.from) / (this.width / 110));
    pen.font = '11px ' + this.ink("sans");
    pen.textBaseline = "middle";
    for (let k = Math.ceil(view.from / step); k * step <= view.to; k++) {
      const x = Math.round(this.x(k * step)) + 0.5;
      pen.strokeStyle = this.ink("faint");
      line(pen, x, AXIS, x, this.height);
      pen.fillStyle = this.ink("quiet");
      pen.fillText(tick(k * step, step), x + 4, AXIS / 2);
    }
  }

  paintLanes() {
    const { pen, view } = this;
    for (const lane of view.trace.lanes) {
      pen.strokeStyle = this.ink("line");
      line(pen, 0, Math.round(lane.top) + 0.5, this.width, Math.round(lane.top) + 0.5);
      this.paintQueue(lane, view.queues[lane.number]);
    }
  }

  paintQueue(lane, { times, depths, most }) {
    if (!most) return;
    const columns = new Float32Array(this.width + 1);
    let k = firstWhere(times.length, (place) => times[place] >= this.view.from);
    let depth = k ? depths[k - 1] : 0;
    let last = 0;
    for (; k < times.length && times[k] <= this.view.to; k++) {
      const x = Math.floor(this.x(times[k]));
      for (let column = last; column <= x; column++) if (depth > columns[column]) columns[column] = depth;
      depth = depths[k];
      if (depth > columns[x]) columns[x] = depth;
      last = x;
    }
    for (let column = last; column < this.width; column++) columns[column] = Math.max(columns[column], depth);
    const { pen } = this;
    const bottom = lane.top + lane.height - 1;
    pen.fillStyle = this.ink("accent");
    pen.globalAlpha = 0.32;
    pen.beginPath();
    columns.forEach((value, column) => {
      if (value) pen.rect(column, bottom - Math.max(1, value / most * QUEUE), 1, QUEUE);
    });
    pen.save();
    pen.clip();
    pen.fillRect(0, bottom - QUEUE, this.width, QUEUE);
    pen.restore();
    pen.globalAlpha = 1;
  }

  strength(i) {
    const { hits, linked, chosen } = this.view;
    if (hits) return hits[i] ? 1 : 0.12;
    return chosen === NOBODY || linked.has(i) ? 1 : 0.3;
  }

  paintEach(low, high) {
    const { pen, view } = this;
    const { trace, shown } = view;
    pen.font = '11px ' + this.ink("sans");
    const free = new Map();
    for (let k = low; k < high; k++) {
      const i = shown[k];
      pen.globalAlpha = this.strength(i);
      this.paintOne(i);
    }
    for (let k = high - 1; k >= low; k--) this.paintWords(shown[k], free);
    pen.globalAlpha = 1;
  }

  paintOne(i, width = 1) {
    const { pen, view: { trace } } = this;
    const lane = trace.lanes[trace.target[i]];
    const x = this.x(trace.sent[i]), begun = this.x(trace.taken[i]), done = this.x(trace.end[i]);
    const y = this.y(i), thick = this.thickness(lane);
    const colour = trace.failed[i] ? this.ink("bad") : this.colours[this.view.colour[i]];
    pen.fillStyle = pen.strokeStyle = colour;
    if (trace.source[i] !== trace.target[i]) this.paintArrow(trace.lanes[trace.source[i]], lane, x, y, thick, width);
    if (begun - x > 1) {
      const alpha = pen.globalAlpha;
      pen.globalAlpha = alpha * 0.35;
      pen.fillRect(x, y - 1.5, begun - x, 3);
      pen.globalAlpha = alpha;
    }
    if (trace.source[i] === trace.target[i]) diamond(pen, begun, y, 4);
    pen.fillRect(begun, y - thick / 2, Math.max(done - begun - (done - begun > 5 ? 1 : 0), 2), thick);
    if (trace.failed[i]) cross(pen, begun, y, this.ink("panel"));
  }

  paintArrow(from, to, x, y, thick, width) {
    const { pen } = this;
    const start = from.top + 8 + (from.height - QUEUE - 10) / 2;
    const down = y > start ? 1 : -1;
    const tip = y - down * thick / 2;
    pen.lineWidth = width;
    line(pen, x, start, x, tip - down * 4);
    pen.beginPath();
    pen.arc(x, start, 1.8, 0, 7);
    pen.moveTo(x, tip);
    pen.lineTo(x - 3.2, tip - down * 6);
    pen.lineTo(x + 3.2, tip - down * 6);
    pen.fill();
    pen.lineWidth = 1;
  }

  // The label beside the bar, as far as there is room before the next bar in the row.
  paintWords(i, free) {
    const { pen, view: { trace } } = this;
    const lane = trace.target[i];
    const key = lane * 8 + this.view.row[i];
    const x = Math.max(this.x(trace.end[i]), this.x(trace.taken[i]) + 2) + 5;
    const until = free.get(key) ?? this.width;
    free.set(key, this.x(trace.sent[i]) - 6);
    const strength = this.strength(i);
    if (strength < 0.3 || this.paintWithin(i, strength)) return;
    if (until - x < 42) return;
    const words = fitted(pen, `${text(trace, "verb", i)} ${text(trace, "about", i)}`, Math.min(until - x, 340));
    if (!words) return;
    pen.globalAlpha = strength;
    pen.fillStyle = trace.failed[i] ? this.ink("bad") : this.ink("ink");
    pen.fillText(words, x, this.y(i));
  }

  // The label in the bar itself, if it is long and high enough; returns whether it was drawn.
  paintWithin(i, strength) {
    const { pen, view: { trace } } = this;
    const begun = Math.max(this.x(trace.taken[i]), 0), room = Math.min(this.x(trace.end[i]), this.width) - begun - 8;
    if (room < 60 || this.thickness(trace.lanes[trace.target[i]]) < 11) return false;
    pen.globalAlpha = strength;
    pen.fillStyle = this.ink("panel");
    pen.fillText(fitted(pen, `${text(trace, "verb", i)} ${text(trace, "about", i)}`, room), begun + 4, this.y(i) + 0.5);
    return true;
  }

  // Many events: for every column of pixels the number of messages between lanes, and the load of each lane.
  paintDensity(low, high) {
    const { view, pen, width } = this;
    const { trace, shown } = view;
    const size = trace.lanes.length;
    const pairs = new Uint16Array(size * size * width);
    const kinds = new Uint8Array(pairs.length);
    const busy = new Float32Array(size * (width + 1));
    const scale = width / (view.to - view.from);
    const faded = new Uint16Array(view.hits ? pairs.length : 0);
    for (let k = low; k < high; k++) {
      const i = shown[k];
      const x = Math.floor((trace.sent[i] - view.from) * scale);
      const target = trace.target[i];
      if (x >= 0 && x < width) {
        const cell = (trace.source[i] * size + target) * width + x;
        if (view.hits && !view.hits[i]) { faded[cell]++; continue; }
        pairs[cell]++;
        kinds[cell] = trace.failed[i] ? 255 : view.colour[i];
      }
      const begun = Math.max((trace.taken[i] - view.from) * scale, 0);
      const done = Math.min((trace.end[i] - view.from) * scale, width - 1e-6);
      if (done >= begun) fillColumns(busy, target * (width + 1), begun, done);
    }
    if (view.hits) this.paintPairs(faded, kinds, 0.05);
    this.paintPairs(pairs, kinds, 0.75);
    this.paintBusy(busy);
    pen.globalAlpha = 1;
  }

  paintPairs(pairs, kinds, most) {
    const { pen, width, view: { trace: { lanes } } } = this;
    const middle = (lane) => lane.top + 8 + (lane.height - QUEUE - 10) / 2;
    const bad = this.ink("bad");
    for (let pair = 0; pair < lanes.length ** 2; pair++) {
      const from = lanes[Math.floor(pair / lanes.length)], to = lanes[pair % lanes.length];
      const start = middle(from), stop = from === to ? start + 4 : middle(to);
      const top = Math.min(start, stop), tall = Math.abs(stop - start);
      for (let x = 0, next; x < width; x = next) {
        next = x + 1;
        const cell = pair * width + x;
        if (!pairs[cell]) continue;
        const kind = kinds[cell], level = 31 - Math.clz32(pairs[cell]);
        // Equal neighbours are drawn as one.
        while (next < width && kinds[cell + next - x] === kind && pairs[cell + next - x]
               && 31 - Math.clz32(pairs[cell + next - x]) === level) next++;
        pen.globalAlpha = kind === 255 ? most : most * Math.min(1, 0.2 + 0.12 * level);
        pen.fillStyle = kind === 255 ? bad : this.colours[kind];
        pen.fillRect(x, top, next - x, tall);
      }
    }
  }

  paintBusy(busy) {
    const { pen, width, view: { trace: { lanes } } } = this;
    pen.fillStyle = this.ink("ink");
    pen.globalAlpha = 0.42;
    for (const lane of lanes) {
      const middle = lane.top + 8 + (lane.height - QUEUE - 10) / 2;
      const room = Math.max(4, lane.height - QUEUE - 14);
      for (let x = 0; x < width; x++) {
        const value = busy[lane.number * (width + 1) + x];
        if (!value) continue;
        const tall = Math.max(1.5, Math.min(room, room * Math.min(1, Math.sqrt(value))));
        pen.fillRect(x, middle - tall / 2, 1, tall);
      }
    }
  }

  paintChosen() {
    const { pen, view } = this;
    if (view.chosen === NOBODY) return;
    const [low, high] = [view.from, view.to];
    const { trace } = view;
    pen.globalAlpha = 1;
    for (const i of view.linked) {
      if (trace.end[i] >= low && trace.sent[i] <= high) this.paintOne(i, i === view.chosen ? 2.5 : 1.4);
    }
    const i = view.chosen, lane = trace.lanes[trace.target[i]], thick = this.thickness(lane) + 6;
    const x = this.x(trace.taken[i]) - 3, wide = Math.max(this.x(trace.end[i]) - x + 3, 8);
    pen.strokeStyle = this.ink("accent");
    pen.lineWidth = 2;
    pen.strokeRect(x, this.y(i) - thick / 2, wide, thick);
    pen.lineWidth = 1;
  }

  // The event that is drawn nearest to a point; NOBODY if none is near.
  at(x, y, reach = 7) {
    const { view } = this, { trace } = view;
    const [low, high] = view.range();
    let best = NOBODY, nearest = reach;
    for (let k = low; k < high; k++) {
      const i = view.shown[k];
      const distance = this.distance(i, x, y, trace);
      if (distance < nearest || (distance === nearest && view.hits?.[i])) { nearest = distance; best = i; }
    }
    return best;
  }

  distance(i, x, y, trace) {
    const sent = this.x(trace.sent[i]), done = this.x(trace.end[i]);
    const bar = Math.hypot(Math.max(sent - x, 0, x - done - 2), Math.max(Math.abs(y - this.y(i)) - 4, 0));
    if (trace.source[i] === trace.target[i]) return bar;
    const from = trace.lanes[trace.source[i]], start = from.top + from.height / 2, stop = this.y(i);
    const beyond = Math.max(Math.min(start, stop) - y, 0, y - Math.max(start, stop));
    return Math.min(bar, Math.hypot(x - sent, beyond) + 0.5);
  }
}

function fillColumns(busy, base, begun, done) {
  const first = Math.floor(begun), last = Math.floor(done);
  if (first === last) { busy[base + first] += done - begun; return; }
  busy[base + first] += first + 1 - begun;
  for (let column = first + 1; column < last; column++) busy[base + column] += 1;
  busy[base + last] += done - last;
}

function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  const steps = least > 30 ? [60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400] : [1, 2, 5, 10].map((k) => k * power);
  return steps.find((step) => step >= least) ?? least;
}

function tick(time, step) {
  if (step >= 3600) return `${Math.round(time / 3600)} h`;
  if (step >= 60) return time >= 3600 ? `${Math.floor(time / 3600)} h ${Math.round(time / 60) % 60} min` : `${Math.round(time / 60)} min`;
  return `${time.toFixed(Math.max(0, Math.min(6, -Math.floor(Math.log10(step)))))} s`;
}

function fitted(pen, words, room) {
  if (pen.measureText(words).width <= room) return words;
  const letters = Math.floor(room / 6.1) - 1;
  return letters < 5 ? "" : words.slice(0, letters).trimEnd() + "…";
}

function line(pen, x, y, toX, toY) {
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(toX, toY);
  pen.stroke();
}

function diamond(pen, x, y, size) {
  pen.beginPath();
  pen.moveTo(x, y - size);
  pen.lineTo(x + size, y);
  pen.lineTo(x, y + size);
  pen.lineTo(x - size, y);
  pen.fill();
}

function cross(pen, x, y, colour) {
  pen.beginPath();
  pen.arc(x, y, 5.5, 0, 7);
  pen.fill();
  pen.strokeStyle = colour;
  pen.lineWidth = 1.6;
  line(pen, x - 2.2, y - 2.2, x + 2.2, y + 2.2);
  line(pen, x - 2.2, y + 2.2, x + 2.2, y - 2.2);
  pen.lineWidth = 1;
}
