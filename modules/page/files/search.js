// The search of nodes: words, and `is:away`, `is:lost`, `is:behind`, `is:never`, `is:cordoned`, `zone:`, `label:site=kiel`, `group:`,
// `version:`, `cert:<30d`;
// a `-` before negates. An unknown key is an error that the field shows, not an empty table.

const KEYS = {
  is: (row, value) => (value === "cordoned" ? Boolean(row.is_cordoned) : row.state === value),
  zone: (row, value) => (row.zone || "").toLowerCase() === value,
  version: (row, value) => (row.version || "").toLowerCase().replace(/^v/, "").startsWith(value.replace(/^v/, "")),
  arch: (row, value) => (row.architecture || "") === value,
  cert: (row, value, now) => {
    const found = /^<(\d+)d$/.exec(value);
    if (!found) throw new Error("cert: wants a number of days, as in cert:<30d");
    return Boolean(row.certificate_ends) && row.certificate_ends - now < found[1] * 86400;
  },
  label: (row, value) => (row.labels || []).some((each) => each.toLowerCase() === value || each.toLowerCase().startsWith(`${value}=`)),
  group: (row, value) => (row.labels || []).includes(`apps.kubeedge.io/belonging-to=${value}`),
  name: (row, value) => value.split(",").includes(row.name),
};
const STATES = ["connected", "behind", "lost", "away", "never", "cordoned"];

/** Return a test of rows for a query. Throws an Error with a sentence for a query that is wrong. */
export function filter(query, now) {
  const tests = query.toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
    const negated = word.startsWith("-"), bare = negated ? word.slice(1) : word, colon = bare.indexOf(":");
    const test = colon > 0 ? keyed(bare.slice(0, colon), bare.slice(colon + 1), now) : (row) => text(row).includes(bare);
    return negated ? (row) => !test(row) : test;
  });
  return (row) => tests.every((test) => test(row));
}

function keyed(key, value, now) {
  if (!(key in KEYS)) throw new Error(`there is no ${key}: there are ${Object.keys(KEYS).join(", ")}`);
  if (key === "is" && !STATES.includes(value)) throw new Error(`is: wants ${STATES.join(", ")}`);
  if (key === "cert") KEYS.cert({}, value, now);
  return (row) => KEYS[key](row, value, now);
}

function text(row) { return `${row.name} ${row.zone || ""} ${row.version || ""} ${row.address || ""} ${row.last_word || ""}`.toLowerCase(); }
