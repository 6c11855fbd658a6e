// A small virtual DOM: h() describes an element, render() makes a parent's children like the descriptions. Texts enter
// as text nodes and as attributes of a fixed list only, so nothing that a node or a pod says can become markup; no JSON is
// a description, whatever it looks like.

const ATTRIBUTES = new Set(["class", "id", "role", "type", "title", "placeholder", "tabindex", "datetime", "for", "lang",
  "scope", "open", "disabled", "d", "cx", "cy", "r", "fill", "stroke", "stroke-width", "stroke-dasharray", "viewBox",
  "aria-label", "aria-current", "aria-pressed", "aria-hidden", "aria-sort", "aria-rowcount", "aria-rowindex", "aria-labelledby",
  "aria-live", "autocomplete", "data-label"]);
const SVG = new Set(["svg", "path", "circle"]);

class Described {
  constructor(tag, props, kids) { Object.assign(this, { tag, props, kids }); }
}

const isElement = (kid) => kid instanceof Described;

/** Describe an element. Properties: attributes of the list, `href` (own paths only), `on…` handlers, `css`, `key`. */
export function h(tag, props, ...kids) {
  return new Described(tag, props || {}, kids.flat(Infinity).filter((kid) => kid !== null && kid !== undefined && kid !== false));
}

/** Make the children of an element like the descriptions. Elements with a key keep their identity when they move. */
export function render(parent, kids) {
  const keyed = new Map();
  for (const child of parent.childNodes) if (child.key !== undefined) keyed.set(child.key, child);
  let at = parent.firstChild;
  for (const kid of [kids].flat(Infinity)) {
    const found = match(kid, at, keyed);
    if (!found) {
      parent.insertBefore(make(kid), at);
    } else {
      if (found === at) at = at.nextSibling; else parent.insertBefore(found, at);
      update(found, kid);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function match(kid, at, keyed) {
  if (!isElement(kid)) return at && at.nodeType === Node.TEXT_NODE ? at : null;
  if (kid.props.key !== undefined) return keyed.get(kid.props.key) || null;
  return at && at.key === undefined && at.nodeName.toLowerCase() === kid.tag.toLowerCase() ? at : null;
}

function make(kid) {
  if (!isElement(kid)) return document.createTextNode(String(kid));
  const made = SVG.has(kid.tag) ? document.createElementNS("http://www.w3.org/2000/svg", kid.tag) : document.createElement(kid.tag);
  if (kid.props.key !== undefined) made.key = kid.props.key;
  update(made, kid);
  return made;
}

function update(node, kid) {
  if (!isElement(kid)) {
    if (node.data !== String(kid)) node.data = String(kid);
    return;
  }
  const before = node.props || {};
  for (const name of Object.keys(before)) if (!(name in kid.props)) set(node, name, null);
  for (const [name, value] of Object.entries(kid.props)) if (before[name] !== value) set(node, name, value);
  node.props = kid.props;
  render(node, kid.kids);
}

function set(node, name, value) {
  if (name === "key") return;
  if (name === "css") {
    for (const [property, text] of Object.entries(value || {})) node.style.setProperty(property, text);
  } else if (name.startsWith("on")) {
    node[name] = value;
  } else if (name === "value") {
    if (node !== document.activeElement) node.value = value === null ? "" : value;
  } else if (name === "href") {
    if (value !== null && !/^(\/page\/|#)/.test(value)) throw new Error(`no link of the page: ${value}`);
    if (value === null) node.removeAttribute("href"); else node.setAttribute("href", value);
  } else if (ATTRIBUTES.has(name)) {
    if (value === null || value === false || value === undefined) node.removeAttribute(name);
    else node.setAttribute(name, value === true ? "" : String(value));
  } else {
    throw new Error(`no attribute of the page: ${name}`);
  }
}
