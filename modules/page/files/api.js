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
export async function enter(token) { await begun("session", { token }); }

async function begun(path, body) {
  const headers = { "X-Edgecore-Page": "1", "Content-Type": "application/json" };
  const answer = await fetch(`/page/v1/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (!answer.ok) throw new Refused(answer.status, (await answer.text()).trim());
  keep((await answer.json()).key);
}

const WAY = "edgecore-page-sign-in";
const letters = (bytes) => btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const random = () => letters(crypto.getRandomValues(new Uint8Array(32)));

/** What is asked of an identity provider, null without one. */
export async function provider() {
  const answer = await fetch("/page/v1/sign-in");
  if (answer.status === 404) return null;
  if (!answer.ok) throw new Refused(answer.status, (await answer.text()).trim());
  return answer.json();
}

/** Go to the identity provider: code flow with PKCE. What proves that the answer is to this tab stays in it. */
export async function goToProvider({ endpoint, client_id, scope }) {
  const url = new URL(endpoint);
  if (url.protocol !== "https:") throw new Error("The identity provider has no https address.");
  const way = { state: random(), nonce: random(), verifier: random(), back: location.pathname + location.search };
  sessionStorage.setItem(WAY, JSON.stringify(way));
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(way.verifier));
  const asked = { response_type: "code", client_id, scope, redirect_uri: `${location.origin}/page/sign-in`, state: way.state, nonce: way.nonce, code_challenge: letters(new Uint8Array(hash)), code_challenge_method: "S256" };
  for (const [name, value] of Object.entries(asked)) url.searchParams.set(name, value);
  location.assign(url);
}

/** Take the provider's answer out of the address, and exchange its code for a key; tell whether there was an answer. */
export async function comeBack() {
  if (location.pathname !== "/page/sign-in") return false;
  const given = new URLSearchParams(location.search), kept = JSON.parse(sessionStorage.getItem(WAY) || "{}");
  sessionStorage.removeItem(WAY);
  history.replaceState(null, "", /^\/page\/(?!sign-in)/.test(kept.back) ? kept.back : "/page/");
  if (!kept.state || given.get("state") !== kept.state) throw new Refused(401, "The identity provider's answer is to no question of this tab: sign in again.");
  if (!given.get("code")) throw new Refused(401, `The identity provider refuses: ${given.get("error_description") || given.get("error") || "it gives no reason"}`);
  await begun("sign-in", { code: given.get("code"), verifier: kept.verifier, nonce: kept.nonce });
  return true;
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
