// The whole trace in a strip, with the visible range as a window that can be dragged.

class Minimap {
  constructor(view, canvas) {
    Object.assign(this, { view, canvas });
    this.pen = canvas.getContext("2d");
    new ResizeObserver(() => { this.resize(); }).observe(canvas);
    view.listen((what) => { if (what === "shown" || what === "hits") this.count(); this.paint(); });
    canvas.addEventListener("pointerdown", (event) => this.grab(event));
  }

  resize() {
    const scale = window.devicePixelRatio || 1;
    const { clientWidth, clientHeight } = this.canvas;
    Object.assign(this, { width: clientWidth, height: clientHeight });
    this.canvas.width = Math.round(clientWidth * scale);
    this.canvas.height = Math.round(clientHeight * scale);
    this.pen.setTransform(scale, 0, 0, scale, 0, 0);
    this.count();
    this.paint();
  }

  count() {
    const { trace, shown, bounds: [from, to], hits } = this.view;
    this.all = new Uint32Array(this.width || 1);
    this.marked = new Uint32Array(this.width || 1);
    this.failed = new Uint8Array(this.width || 1);
    for (const i of shown) {
      const x = Math.min(Math.floor((trace.sent[i] - from) / (to - from) * this.width), this.all.length - 1);
      this.all[x]++;
      if (hits?.[i]) this.marked[x]++;
      if (trace.failed[i]) this.failed[x] = 1;
    }
    this.most = this.all.reduce((most, value) => Math.max(most, value), 1);
  }

  x(time) {
    const [from, to] = this.view.bounds;
    return (time - from) / (to - from) * this.width;
  }

  paint() {
    if (!this.width) return;
    const style = getComputedStyle(document.documentElement);
    const ink = (name) => style.getPropertyValue(`--${name}`);
    const { pen, width, height } = this;
    pen.clearRect(0, 0, width, height);
    const tall = (value) => value && Math.max(2, Math.log2(1 + value) / Math.log2(1 + this.most) * (height - 10));
    for (let x = 0; x < width; x++) {
      pen.fillStyle = ink(this.view.hits ? "line" : "answer");
      pen.fillRect(x, height - tall(this.all[x]), 1, tall(this.all[x]));
      if (this.marked[x]) { pen.fillStyle = ink("accent"); pen.fillRect(x, height - tall(this.marked[x]), 1, height); }
      if (this.failed[x]) { pen.fillStyle = ink("bad"); pen.fillRect(x - 1, 0, 3, 4); }
    }
    const from = this.x(this.view.from), wide = Math.max(this.x(this.view.to) - from, 3);
    pen.globalAlpha = 0.55;
    pen.fillStyle = ink("paper");
    pen.fillRect(0, 0, from, height);
    pen.fillRect(from + wide, 0, width, height);
    pen.globalAlpha = 1;
    pen.strokeStyle = ink("accent");
    pen.lineWidth = 1.5;
    pen.strokeRect(from + 0.75, 0.75, wide - 1.5, height - 1.5);
  }

  grab(event) {
    const { view, canvas } = this;
    const time = (moved) => {
      const [from, to] = view.bounds;
      return from + (moved.clientX - canvas.getBoundingClientRect().left) / this.width * (to - from);
    };
    const at = time(event);
    const width = view.to - view.from;
    const offset = at >= view.from && at <= view.to ? at - view.from : width / 2;
    const move = (moved) => { const from = time(moved) - offset; view.look(from, from + width); };
    canvas.setPointerCapture(event.pointerId);
    canvas.addEventListener("pointermove", move);
    canvas.addEventListener("pointerup", () => canvas.removeEventListener("pointermove", move), { once: true });
    move(event);
  }
}
