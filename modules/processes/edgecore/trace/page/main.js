// Puts the page together: pointer, wheel and keys.

const byId = (id) => document.getElementById(id);

function listenToPointer(view, timeline, canvas, tip) {
  let drag = null;
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (sideways && (event.shiftKey || Math.abs(sideways) > Math.abs(event.deltaY))) view.move(sideways / timeline.width);
    else view.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.004), timeline.time(event.offsetX));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, from: view.from, to: view.to, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) { hover(view, timeline, tip, event); return; }
    const by = event.clientX - drag.x;
    drag.moved ||= Math.abs(by) > 3;
    const time = by / timeline.width * (drag.to - drag.from);
    if (drag.moved) { tip.hidden = true; view.look(drag.from - time, drag.to - time); }
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) view.choose(timeline.at(event.offsetX, event.offsetY), { bring: false });
    drag = null;
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("dblclick", (event) => view.zoom(0.25, timeline.time(event.offsetX)));
}

function hover(view, timeline, tip, event) {
  const { trace } = view;
  const i = timeline.at(event.offsetX, event.offsetY);
  tip.hidden = i === NOBODY;
  if (i === NOBODY) return;
  const times = [`at ${trace.sent[i].toFixed(6)} s`];
  if (trace.taken[i] > trace.sent[i]) times.push(`waited ${span(trace.taken[i] - trace.sent[i])}`);
  if (trace.end[i] > trace.taken[i]) times.push(`took ${span(trace.end[i] - trace.taken[i])}`);
  tip.replaceChildren(element("b", {}, `${text(trace, "verb", i)} ${text(trace, "about", i)}`),
    element("div", {}, [...times, text(trace, "outcome", i)].filter(Boolean).join(" · ")));
  const stage = tip.parentElement.getBoundingClientRect();
  const x = event.clientX - stage.left, y = event.clientY - stage.top;
  tip.style.left = `${Math.min(x + 14, stage.width - tip.offsetWidth - 8)}px`;
  tip.style.top = `${y + 18 + tip.offsetHeight > stage.height ? y - tip.offsetHeight - 10 : y + 18}px`;
}

function listenToKeys(view, search) {
  const keys = {
    ArrowLeft: () => view.move(-0.2), ArrowRight: () => view.move(0.2),
    "+": () => view.zoom(0.6), "=": () => view.zoom(0.6), "-": () => view.zoom(1 / 0.6),
    "0": () => view.look(...view.bounds), ",": () => view.step(-1), ".": () => view.step(1),
    n: () => view.nextHit(1), N: () => view.nextHit(-1), "/": () => search.field.focus(),
    c: () => { if (view.chosen !== NOBODY && view.trace.cause[view.chosen] !== NOBODY) view.choose(view.trace.cause[view.chosen]); },
    Enter: () => byId("detail").focus(), Escape: () => view.choose(NOBODY),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.key === "Enter" && event.target.tagName === "BUTTON")) return;
    if (event.target === search.field) { keyInSearch(event, view, search); return; }
    const does = keys[event.key];
    if (does) { event.preventDefault(); does(); }
  });
}

function keyInSearch(event, view, search) {
  if (event.key === "Enter") view.nextHit(event.shiftKey ? -1 : 1);
  if (event.key !== "Escape") return;
  search.field.value = "";
  search.run();
  search.field.blur();
}

function listenToButtons(view, repaint) {
  byId("zoom-in").addEventListener("click", () => view.zoom(0.5));
  byId("zoom-out").addEventListener("click", () => view.zoom(2));
  byId("zoom-all").addEventListener("click", () => view.look(...view.bounds));
  byId("next").addEventListener("click", () => view.nextHit(1));
  byId("previous").addEventListener("click", () => view.nextHit(-1));
  const root = document.documentElement.dataset;
  byId("theme").addEventListener("click", () => { root.theme = root.theme === "dark" ? "light" : "dark"; repaint(); });
}

function followTheme(repaint) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => { document.documentElement.dataset.theme = dark.matches ? "dark" : "light"; repaint(); };
  dark.addEventListener("change", follow);
  follow();
}

async function main() {
  const trace = await openTrace();
  document.title = byId("title").textContent = trace.title;
  byId("summary").textContent = [trace.node, `${trace.count.toLocaleString("en")} events`, span(trace.last - trace.first)]
    .filter(Boolean).join(" · ");
  const view = new View(trace);
  const timeline = new Timeline(view, byId("canvas"), byId("gutter"));
  new Minimap(view, byId("minimap"));
  new List(view, byId("list"), byId("space"));
  new Detail(view, byId("detail"));
  new Filters(view, byId("filters"));
  const search = new Search(view, byId("search"), byId("hits"));
  const repaint = () => view.changed("theme");
  followTheme(repaint);
  listenToPointer(view, timeline, byId("canvas"), byId("tip"));
  listenToKeys(view, search);
  listenToButtons(view, repaint);
  // For tests and for debugging: the view, and the time of the first frame.
  window.traceView = { view, timeline };
  requestAnimationFrame(() => requestAnimationFrame(() => {
    document.documentElement.dataset.ready = String(Math.round(performance.now()));
  }));
}

main().catch((error) => {
  document.querySelector("main").replaceChildren(element("p", { class: "broken" }, `This page cannot show its trace: ${error}`));
  throw error;
});
