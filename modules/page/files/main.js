// The page's paths, its clock, and the state that the pages share.

import { ask, comeBack, enter, goToProvider, hasUsers, provider, Refused, signIn, signOut, tokenOfAddress } from "./api.js";
import { changes } from "./changes.js";
import { device, devices, readAgain } from "./devices.js";
import { h, render } from "./dom.js";
import { fleet } from "./fleet.js";
import { job } from "./jobs.js";
import { node, ownNode } from "./node.js";
import { missing, setAbout } from "./parts.js";
import { pod } from "./pod.js";
import { pods } from "./pods.js";
import { rollouts } from "./rollouts.js";
import { duration, now, plain, setNow } from "./words.js";

const PERIOD = 1000;
const SLOW = 3000;
const FLEET = [["Fleet", "/page/"], ["Pods", "/page/pods"], ["Rollouts", "/page/rollouts"], ["Devices", "/page/devices"], ["Changes", "/page/changes"]];
const NODE = [["Node", "/page/"], ["Pods", "/page/pods"], ["Devices", "/page/devices"]];
const content = document.getElementById("content");
const state = { rows: new Map(), head: {}, version: 0, isRead: false, view: 0, forbidden: {}, query: "", trouble: "", asOf: 0, failed: 0, story: null, logs: new Map(), paint, about: {} };
let timer = 0, turn = 0, said = "";

function parts() { return location.pathname.split("/").filter(Boolean).slice(1).map(decodeURIComponent); }

/** The pages of a fleet, or of the one node whose server this is. */
function tabs() { return state.about.node ? NODE : FLEET; }

function isFleet() { return !parts()[0] && !state.about.node; }

/** Change the search of this page; it is in the address, so that a link can be sent. */
function search(query) {
  state.query = query;
  history.replaceState(null, "", query ? `${location.pathname}?q=${encodeURIComponent(query)}` : location.pathname);
  if (!parts()[0]) return paint();
  turn += 1; // an answer to the former search comes too late
  poll();
}

function view() {
  const [page, ...rest] = parts();
  if (state.wrong) return h("div", { class: "lead" }, h("h1", { id: "sentence" }, plain(state.wrong)), h("p", {}, h("a", { href: "/page/" }, tabs()[0][0])));
  if (isFleet()) return fleet(state, search);
  if (!state.story) return h("p", { class: "quiet lead" }, "reading");
  if (state.about.node && (!page || page === "nodes")) return ownNode(state.story);
  if (page === "nodes") return node(state.story);
  if (page === "rollouts") return rest.length ? job(state.story, state.query, search) : rollouts(state.story);
  if (page === "changes") return changes(state.story, state.query, search);
  if (page === "devices") return rest.length ? device(state.story, state.logs, paint) : devices(state.story, state.query, search);
  if (page === "pods" && rest.length) return pod(state.story, state.logs, paint);
  return pods(state.story, state.query, search);
}

function paint() {
  const [lead, ...others] = [view()].flat(Infinity).filter(Boolean);
  render(content, [lead, ...state.wrong ? [] : missing(isFleet() ? state.forbidden : state.story?.forbidden), ...others]);
  const page = parts()[0];
  render(document.getElementById("nav"), tabs().map(([label, href]) => h("a", { href, "aria-current": (["pods", "rollouts", "devices", "changes"].includes(page) ? page : "") === href.slice(6) ? "page" : null }, label)));
  const late = state.failed ? `no answer for ${duration(now() - state.failed)}, trying again` : state.trouble ? `${plain(state.trouble)}${state.asOf ? ` · as of ${duration(now() - state.asOf)} ago` : ""}` : "live";
  render(document.getElementById("live"), [h("i", { class: late === "live" ? "" : "late" }), late]);
  document.body.classList.toggle("stale", late !== "live");
  const sentence = document.getElementById("sentence")?.textContent || "";
  document.title = sentence ? `${sentence} · edgecore` : "edgecore";
  const first = (state.head.findings || [])[0]?.sentence || "";
  if (isFleet() && first !== said) { said = first; document.getElementById("announce").textContent = plain(first); }
}

async function readFleet() {
  const changes = await ask(`changes?since=${state.version}&view=${state.view}`);
  setNow(changes.now);
  if (changes.is_full) state.rows.clear();
  for (const row of changes.set || []) state.rows.set(row.name, row);
  for (const name of changes.gone || []) state.rows.delete(name);
  Object.assign(state, { version: changes.version, view: changes.view || 0, forbidden: changes.forbidden || {}, isRead: state.isRead || changes.is_read, trouble: changes.trouble || "", asOf: changes.as_of || 0 });
  if (changes.head) state.head = changes.head;
}

async function readStory() {
  const [page, ...rest] = parts(), encoded = rest.map(encodeURIComponent).join("/");
  const asked = !page ? `nodes/${encodeURIComponent(state.about.node)}` : page === "nodes" ? `nodes/${encoded}` : page === "rollouts" ? (rest.length ? `${page}/${encoded}?q=${encodeURIComponent(state.query)}` : page) : page === "changes" ? `journal?q=${encodeURIComponent(state.query)}` : rest.length ? `${page === "devices" ? page : "explain"}/${encoded}` : `${page === "devices" ? page : "pods"}?q=${encodeURIComponent(state.query)}`;
  const at = turn, story = await ask(asked);
  if (at === turn) {
    if (story.now) setNow(story.now);
    state.story = story;
    if (page === "devices" && rest.length) await readAgain(story, state.logs);
  }
}

/** Ask once, paint, and ask again a little later; a hidden tab waits until it is looked at. */
async function poll() {
  clearTimeout(timer);
  const page = !isFleet(), at = turn;
  try {
    await (page ? readStory() : readFleet());
    if (at !== turn) return;
    Object.assign(state, { failed: 0, wrong: "" });
  } catch (error) {
    if (at !== turn) return;
    if (error instanceof Refused && error.status === 401) return ended(error.message);
    if (error instanceof Refused && error.status < 500 && error.status !== 429) state.wrong = error.message;
    else state.failed = state.failed || now();
  }
  paint();
  if (!document.hidden) timer = setTimeout(poll, page || state.failed ? SLOW : PERIOD);
}

function go(href) {
  const target = new URL(href, location.origin);
  if (target.href !== location.href) history.pushState(null, "", target);
  turned();
  content.focus({ preventScroll: true });
  scrollTo(0, 0);
}

function turned() {
  turn += 1;
  Object.assign(state, { query: new URLSearchParams(location.search).get("q") || "", story: null, wrong: "", scrolled: 0, logs: new Map() });
  paint();
  poll();
}

function ended(why) {
  clearTimeout(timer);
  turn += 1;
  signedOut(why, null);
  if (hasUsers) provider().then((found) => { if (found && document.getElementById("token")) signedOut(why, found); }, () => {});
}

/** Sign out; a request that is under way does not say so once more, and takes the way to sign in again off the page. */
function leave() {
  clearTimeout(timer);
  turn += 1;
  signOut().finally(() => ended("You have signed out."));
}

/** Say why there is no session, and how to get one: by a token, or at an identity provider. */
function signedOut(why, found) {
  render(content, [h("div", { class: "lead" }, h("h1", { id: "sentence" }, hasUsers ? "Sign in to see the fleet." : "This page has no session."), h("p", { role: "status" }, plain(why))),
    found ? h("div", { class: "tools plain" }, h("button", { type: "button", id: "provider", onclick: () => goToProvider(found).catch((error) => ended(error.message)) }, `Sign in at ${plain(new URL(found.endpoint).host)}`)) : null, hasUsers ? signInForm() : null].filter(Boolean));
  render(document.getElementById("live"), ["signed out"]);
  for (const part of ["who", "nav"]) render(document.getElementById(part), []);
}

/** The form for a token; the page asks for it itself, so that no browser sends it anywhere else. */
function signInForm() {
  const sent = async (event) => {
    event.preventDefault();
    const field = document.getElementById("token"), token = field.value.trim();
    field.value = "";
    if (!token) return;
    try {
      await insist(() => enter(token));
      await entered();
    } catch (error) {
      ended(error.status === 401 ? "The server does not know this token." : error.message);
    }
  };
  return h("form", { class: "tools plain", onsubmit: sent }, h("label", { for: "token" }, "Bearer token"),
    h("input", { id: "token", type: "password", autocomplete: "current-password" }), h("button", { type: "submit" }, "Sign in"),
    h("p", { class: "quiet" }, "Of a service account (cloudcore create token NAME), of the token file, or the ID token of your identity provider. A browser with a client certificate needs none."));
}

const KEYS = { f: "/page/", p: "/page/pods", r: "/page/rollouts", d: "/page/devices", c: "/page/changes" };
let before = "";

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /INPUT|TEXTAREA/.test(event.target.tagName)) {
    if (event.key === "Escape" && event.target.id === "q") { event.target.value = ""; search(""); event.target.blur(); }
    return;
  }
  if (event.key === "/") { event.preventDefault(); document.getElementById("q")?.focus(); }
  if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
  if (before === "g" && tabs().some(([, href]) => href === KEYS[event.key])) go(KEYS[event.key]);
  before = event.key;
}

/** Move the focus to the next or the previous row. */
function step(by) {
  const rows = [...content.querySelectorAll(".todo a, a.name")], at = rows.indexOf(document.activeElement);
  (rows[at < 0 ? 0 : at + by] || rows[at])?.focus();
}

function isDark() {
  const chosen = document.documentElement.style.colorScheme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Do something until the server answers; a refusal is an answer. */
async function insist(work) {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (error instanceof Refused) throw error;
      render(document.getElementById("live"), [h("i", { class: "late" }), "no answer, trying again"]);
      await new Promise((resolve) => setTimeout(resolve, PERIOD));
    }
  }
}

async function begin() {
  document.getElementById("theme").onclick = () => { document.documentElement.style.colorScheme = isDark() ? "light" : "dark"; };
  document.addEventListener("keydown", pressed);
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href^='/page/']");
    if (link && !link.pathname.startsWith("/page/shell/") && !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0) { event.preventDefault(); go(link.getAttribute("href")); }
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
  addEventListener("popstate", turned);
  const token = tokenOfAddress();
  try {
    if (hasUsers && await comeBack()) return await entered();
    if (!await insist(() => signIn(token))) return ended(hasUsers ? "The page shows what your rights at the Kubernetes API let you see." : "Open the address that the command prints.");
    await entered();
  } catch (error) {
    ended(error.message);
  }
}

/** Begin with a session. */
async function entered() {
  state.about = await insist(() => ask("me"));
  Object.assign(state, { rows: new Map(), head: {}, version: 0, view: 0, isRead: false });
  setAbout(state.about);
  render(document.getElementById("may"), state.about.allowed.length ? "may open shells" : "read only");
  render(document.getElementById("brand"), [plain(state.about.program), h("span", {}, plain(state.about.server))]);
  render(document.getElementById("who"), state.about.user ? [h("span", { class: "hide-s" }, plain(state.about.user)), h("button", { type: "button", onclick: leave }, "Sign out")] : []);
  turned();
}

begin();
