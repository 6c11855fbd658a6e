// The session, and requests to this page's server. The key is kept for this tab and sent as a header; there is no cookie.

const KEY = "edgecore-page-key";
let key = sessionStorage.getItem(KEY) || "";
const channel = new BroadcastChannel("edgecore-page");
channel.onmessage = ({ data }) => {
  if (data === "key?" && key) channel.postMessage({ key });
};

export class Refused extends Error {
  constructor(status, text) { super(text); this.status = status; }
}

/** Take the token out of the address, "" if it has none. */
export function tokenOfAddress() {
  const token = location.hash.slice(1);
  if (!/^[-\w]{43}$/.test(token)) return "";
  history.replaceState(null, "", location.pathname + location.search);
  return token;
}

/** Whether users sign in here: a command prints addresses with one-time tokens on this machine, without TLS. */
export const hasUsers = location.protocol === "https:";

/** Exchange a token for a key, or take the key of another tab; tell whether there is one. */
export async function signIn(token) {
  if (token) await enter(token);
  if (!key) keep(await keyOfAnotherTab());
  if (!key && hasUsers) await enter("").catch(() => {}); // by the certificate that the browser may have
  return Boolean(key);
}

/** Exchange a token, or the certificate of the connection, for a key. */
export async function enter(token) {
  const headers = { "X-Edgecore-Page": "1", "Content-Type": "application/json" };
  const answer = await fetch("/page/v1/session", { method: "POST", headers, body: JSON.stringify({ token }) });
  if (!answer.ok) throw new Refused(answer.status, await answer.text());
  keep((await answer.json()).key);
}

/** End the session. */
export async function signOut() {
  const headers = { "X-Edgecore-Page": "1", Authorization: `Bearer ${key}` };
  keep("");
  await fetch("/page/v1/session", { method: "DELETE", headers });
}

function keep(value) {
  key = value;
  if (key) sessionStorage.setItem(KEY, key); else sessionStorage.removeItem(KEY);
}

function keyOfAnotherTab() {
  return new Promise((resolve) => {
    const other = new BroadcastChannel("edgecore-page");
    const done = (value) => { other.close(); resolve(value); };
    other.onmessage = ({ data }) => { if (data && typeof data.key === "string") done(data.key); };
    channel.postMessage("key?");
    setTimeout(() => done(""), 300);
  });
}

async function asked(path, signal) {
  const answer = await fetch(`/page/v1/${path}`, { headers: { Authorization: `Bearer ${key}` }, signal });
  if (!answer.ok) {
    if (answer.status === 401) keep("");
    throw new Refused(answer.status, (await answer.text()).trim());
  }
  return answer;
}

/** Ask for JSON. */
export async function ask(path, signal) { return (await asked(path, signal)).json(); }

/** Ask for a text. */
export async function askText(path, signal) { return (await asked(path, signal)).text(); }

/** Open the WebSocket of a shell; the key is one of its protocols, as a script can give it no header. */
export function shellSocket(...parts) {
  return new WebSocket(`${location.origin.replace(/^http/, "ws")}/page/v1/shell/${parts.map(encodeURIComponent).join("/")}`,
    ["v5.channel.k8s.io", "v4.channel.k8s.io", `key.page.edgecore.${key}`]);
}

/** A path of this page, each part encoded. */
export function path(...parts) { return `/page/${parts.map(encodeURIComponent).join("/")}`; }
