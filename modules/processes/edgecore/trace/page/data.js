// The trace: columns out of the packed index, bodies on demand.

const ARRAYS = { d: Float64Array, i: Int32Array, I: Uint32Array, H: Uint16Array, B: Uint8Array };
const NOBODY = -1;

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

async function unpacked(id) {
  const packed = fromBase64(document.getElementById(id).textContent);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

async function openTrace() {
  const buffer = await unpacked("index");
  const length = new DataView(buffer).getUint32(0, true);
  const facts = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const trace = { ...facts, chunks: new Map() };
  const start = 4 + length;
  for (const [name, [code, offset]] of Object.entries(facts.columns)) {
    trace[name] = new ARRAYS[code](buffer, start + offset, facts.count);
  }
  trace.lanes.forEach((lane, number) => { lane.number = number; });
  trace.first = trace.count ? trace.sent[0] : 0;
  trace.last = trace.first;
  for (let i = 0; i < trace.count; i++) if (trace.end[i] > trace.last) trace.last = trace.end[i];
  trace.effects = effectsOf(trace);
  return trace;
}

// The first effect and the next sibling of each event, as linked lists in two arrays.
function effectsOf(trace) {
  const first = new Int32Array(trace.count).fill(NOBODY);
  const next = new Int32Array(trace.count).fill(NOBODY);
  for (let i = trace.count - 1; i >= 0; i--) {
    const cause = trace.cause[i];
    if (cause !== NOBODY) { next[i] = first[cause]; first[cause] = i; }
  }
  return { first, next };
}

// Unpacked chunks are cached, because bodies of neighbours are requested next.
async function chunkOf(trace, number) {
  if (!trace.chunks.has(number)) {
    if (trace.chunks.size >= 8) trace.chunks.delete(trace.chunks.keys().next().value);
    trace.chunks.set(number, unpacked(`bodies-${number}`).then((buffer) => new Uint8Array(buffer)));
  }
  return trace.chunks.get(number);
}

async function bodyOf(trace, i) {
  if (!trace.length[i]) return "";
  const chunk = await chunkOf(trace, trace.chunk[i]);
  return new TextDecoder().decode(chunk.subarray(trace.start[i], trace.start[i] + trace.length[i]));
}

const text = (trace, column, i) => trace.texts[trace[column][i]];
const sortOf = (trace, i) => trace.sorts[trace.sort[i]];

// The colour of an event, by the kind of its operation.
const COLOURS = ["insert", "update", "delete", "query", "answer", "call", "commit", "timer", "other"];
const VERBS = {
  insert: 0, update: 1, patch: 1, delete: 2, query: 3, get: 3, response: 4, error: 2,
};

function colourOf(trace, i) {
  switch (sortOf(trace, i)) {
    case "cri call": case "cri event": return 5;
    case "commit": return 6;
    case "timer": return 7;
    default: return VERBS[text(trace, "verb", i)] ?? 8;
  }
}

// Formats times in seconds.
function span(seconds) {
  const size = Math.abs(seconds);
  if (size < 1e-7) return "0";
  if (size < 1e-3) return `${(seconds * 1e6).toFixed(size < 1e-5 ? 1 : 0)} µs`;
  if (size < 1) return `${(seconds * 1e3).toFixed(size < 1e-2 ? 2 : 1)} ms`;
  if (size < 120) return `${seconds.toFixed(2)} s`;
  if (size < 7200) return `${(seconds / 60).toFixed(1)} min`;
  return `${(seconds / 3600).toFixed(2)} h`;
}

const wall = (trace, time) => new Date((trace.began + time) * 1000);
const clock = (trace, time) => wall(trace, time).toISOString().slice(11, 23);

function bytes(count) {
  if (count < 1000) return `${count} B`;
  return count < 1e6 ? `${(count / 1e3).toFixed(1)} kB` : `${(count / 1e6).toFixed(1)} MB`;
}
