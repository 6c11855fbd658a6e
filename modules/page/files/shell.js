// The document of a shell: a terminal of xterm.js, and a WebSocket with the channels of `pods/exec`.

import { ask, shellSocket, signIn } from "./api.js";
import { ending, Output, pasted, silence } from "./terminal.js";
import { plain } from "./words.js";
import { Terminal } from "./xterm.mjs";

const STDIN = 0, RESULT = 3, RESIZE = 4, MOST_UNSENT = 1 << 20;
const [namespace, pod, container] = location.pathname.split("/").slice(3).map(decodeURIComponent);
const nonce = document.getElementById("script").nonce;
const encoder = new TextEncoder();
let socket = null, said = "";

// xterm.js makes style elements and sets style attributes: the policy of this document allows an element with its nonce,
// and properties that a script sets.
const createElement = document.createElement.bind(document);
document.createElement = (name, options) => {
  const made = createElement(name, options);
  if (name === "style") made.nonce = nonce;
  return made;
};
const { setAttribute } = Element.prototype;
Element.prototype.setAttribute = function set(name, value) {
  if (name === "style") this.style.cssText = value; else setAttribute.call(this, name, value);
};

const terminal = new Terminal({
  fontFamily: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace', fontSize: 14, scrollback: 5000,
  minimumContrastRatio: 4.5, theme: { background: "#101316", foreground: "#e4e7eb" }, logLevel: "off", windowOptions: {}, linkHandler: { activate() {} },
});

function show(text) {
  document.getElementById("state").textContent = text;
}

function send(channel, bytes) {
  if (socket?.readyState !== WebSocket.OPEN) return;
  if (socket.bufferedAmount > MOST_UNSENT) return show("The node takes no input: it is left out.");
  const message = new Uint8Array(bytes.length + 1);
  message[0] = channel;
  message.set(bytes, 1);
  socket.send(message);
}

/** Give the terminal the columns and lines that its place has room for. */
function fit() {
  const place = document.getElementById("terminal"), cells = place.querySelector(".xterm-screen").getBoundingClientRect();
  if (!cells.width || !place.clientWidth) return;
  const columns = Math.floor(place.clientWidth / (cells.width / terminal.cols)), lines = Math.floor(place.clientHeight / (cells.height / terminal.rows));
  terminal.resize(Math.min(500, Math.max(20, columns)), Math.min(200, Math.max(5, lines)));
}

function sendSize() {
  send(RESIZE, encoder.encode(JSON.stringify({ Width: terminal.cols, Height: terminal.rows })));
}

function paste(event) {
  event.preventDefault();
  event.stopPropagation();
  const text = pasted(event.clipboardData?.getData("text/plain") || "");
  if (text === null) return show("This is too long to be pasted: 64 KiB at most.");
  const lines = text.split(/\r\n?|\n/).length;
  if (text && (lines === 1 || confirm(`Paste ${lines} lines? A shell runs each of them.`))) terminal.paste(text);
}

function pressed(event) {
  if (event.shiftKey && event.key === "F6") {
    if (event.type === "keydown") document.getElementById("back").focus();
    event.preventDefault();
    return false;
  }
  if (event.ctrlKey && event.shiftKey && event.key.toLowerCase() === "c") {
    if (event.type === "keydown") navigator.clipboard?.writeText(terminal.getSelection());
    event.preventDefault();
    return false;
  }
  return !(event.ctrlKey && event.shiftKey && event.key.toLowerCase() === "v");
}

function over(text) {
  said = said || text;
  show(said);
  terminal.options.disableStdin = true;
  const again = document.getElementById("again");
  again.hidden = false;
  if (document.activeElement === terminal.textarea) again.focus();
}

async function open() {
  document.getElementById("again").hidden = true;
  said = "";
  show("connecting");
  try {
    if (!await signIn("")) return over("This page has no session.");
    await ask("me");
  } catch (error) {
    return over(plain(error.message));
  }
  terminal.reset();
  terminal.options.disableStdin = false;
  terminal.focus();
  const opened = shellSocket(namespace, pod, container), output = new Output(terminal);
  socket = opened;
  opened.binaryType = "arraybuffer";
  opened.onopen = () => { show("connected"); fit(); sendSize(); };
  opened.onmessage = ({ data }) => {
    if (socket !== opened || !(data instanceof ArrayBuffer) || !data.byteLength) return;
    const bytes = new Uint8Array(data);
    if (bytes[0] === RESULT) over(ending(new TextDecoder().decode(bytes.subarray(1, 65537))));
    else if (bytes[0] < RESULT && bytes.length > 1) output.take(bytes.subarray(1));
  };
  opened.onclose = () => { if (socket === opened) over("The connection has ended, and the shell with it."); };
}

function begin() {
  const named = `${namespace}/${pod}`;
  document.title = plain(`sh in ${named} · edgecore`);
  document.getElementById("sentence").textContent = plain(`sh in container ${container} of ${named}`);
  document.getElementById("back").setAttribute("href", `/page/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(pod)}`);
  const place = document.getElementById("terminal");
  terminal.open(place);
  silence(terminal);
  terminal.attachCustomKeyEventHandler(pressed);
  place.addEventListener("paste", paste, true);
  terminal.onData((data) => send(STDIN, encoder.encode(data)));
  terminal.onBinary((data) => send(STDIN, Uint8Array.from(data, (each) => each.charCodeAt(0))));
  terminal.onResize(sendSize);
  new ResizeObserver(fit).observe(place);
  document.getElementById("again").onclick = open;
  addEventListener("pagehide", () => socket?.close());
  ask("me").then((about) => {
    document.getElementById("brand").textContent = plain(about.program);
    document.getElementById("command").textContent = plain(`${about.program} exec -it ${named} -c ${container} -- sh`);
  }).catch(() => {});
  open();
}

begin();
