// Everything here is a convenience: each page works without it.

const base = document.body.dataset.base;

// Live regions. The server says when to look again; the page is then fetched as it is
// and the region with the same id takes the place of the old one.
const live = document.querySelector("[data-live]");
let paused = false;

function busy(region) {
  return paused || region.contains(document.activeElement) && document.activeElement !== document.body
    || region.querySelector("details[open]") !== null || !window.getSelection().isCollapsed;
}

async function refresh() {
  const old = document.getElementById("live");
  if (!old || document.hidden || busy(old)) return;
  const answer = await fetch(location.href, { headers: { Accept: "text/html", "X-Outbox-Refresh": "1" }, credentials: "same-origin" });
  if (answer.redirected) { location.reload(); return; } // to the login: the session is over
  if (!answer.ok) throw new Error(answer.statusText);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById("live");
  if (!fresh || busy(old)) return;
  replace(old, document.adoptNode(fresh));
}

// Only what has changed is replaced, so that screen readers do not hear the rest again.
function replace(old, fresh) {
  if (!fresh.hasAttribute("data-live")) { // nothing more will happen
    stream?.close();
    old.replaceWith(fresh);
    return;
  }
  const before = [...old.children];
  const after = [...fresh.children];
  if (before.length !== after.length) { old.replaceChildren(...after); return; }
  before.forEach((child, i) => { if (!child.isEqualNode(after[i])) child.replaceWith(after[i]); });
}

// Old numbers must not look like new ones.
const offline = document.getElementById("offline");
function connected(yes) { if (offline) offline.hidden = yes; }

function watchHover(region) {
  if (region.dataset.live !== "hover") return;
  region.addEventListener("pointerenter", () => { paused = true; });
  region.addEventListener("pointerleave", () => { paused = false; });
}

let stream = null;
if (live) {
  watchHover(live);
  stream = new EventSource(base + "/events" + (live.dataset.live === "fast" ? "?fast=1" : ""));
  let first = true;
  let running = false;
  stream.addEventListener("tick", async () => {
    if (first) { first = false; return; } // the page is as new as the stream
    if (running) return;
    running = true;
    try { await refresh(); connected(true); } catch { connected(false); } finally { running = false; }
  });
  stream.addEventListener("open", () => connected(true));
  stream.addEventListener("error", () => connected(false));
  window.addEventListener("pagehide", () => stream.close());
  window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
}

// Keyboard shortcuts.
const screens = { o: "overview", m: "messages", d: "dead", r: "replay", k: "keys", a: "audit" };
let going = 0;

function rows() { return [...document.querySelectorAll("[data-rows] tbody tr, ul[data-rows] > li")]; }

function move(step) {
  const all = rows();
  if (all.length === 0) return;
  const now = all.findIndex((row) => row.classList.contains("selected"));
  const next = Math.min(all.length - 1, Math.max(0, now + step));
  all[now]?.classList.remove("selected");
  all[next].classList.add("selected");
  all[next].scrollIntoView({ block: "nearest" });
  all[next].querySelector(".row-link")?.focus({ preventScroll: true });
}

function typing(target) { return target.closest("input, select, textarea, dialog[open]") !== null; }

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  if (Date.now() - going < 1500 && screens[event.key]) {
    going = 0;
    document.querySelector(`[data-nav="${screens[event.key]}"]`)?.click();
    return;
  }
  switch (event.key) {
    case "g": going = Date.now(); return;
    case "/": {
      const field = document.querySelector("[data-filter]");
      if (field) { event.preventDefault(); field.focus(); field.select(); }
      return;
    }
    case "j": move(1); return;
    case "k": move(-1); return;
    case "?": document.getElementById("help")?.showModal(); return;
  }
});

for (const button of document.querySelectorAll("[data-help]")) {
  button.hidden = false;
  button.addEventListener("click", () => document.getElementById("help").showModal());
}

// Copying a command.
for (const button of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.classList.add("copied");
    button.setAttribute("aria-live", "polite");
    button.lastChild.textContent = " ✓";
  });
}

// Choosing a table.
for (const form of document.querySelectorAll("[data-autosubmit]")) {
  form.addEventListener("change", () => form.requestSubmit());
}

// A bulk change cannot be sent before the count is typed.
for (const form of document.querySelectorAll("[data-confirm]")) {
  const typed = form.elements.namedItem("count");
  const button = form.querySelector("button");
  const check = () => { button.disabled = typed.value.replace(/[, ]/g, "") !== form.dataset.confirm; };
  typed.addEventListener("input", check);
  check();
  form.addEventListener("submit", () => { queueMicrotask(() => { button.disabled = true; }); });
}

// One action at a time, and Escape closes it.
document.addEventListener("toggle", (event) => {
  if (!event.target.matches?.("details.action[open]")) return;
  for (const other of document.querySelectorAll("details.action[open]")) if (other !== event.target) other.open = false;
  event.target.querySelector("input:not([type=hidden]), select")?.focus();
}, true);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const open of document.querySelectorAll("details.action[open]")) { open.open = false; open.querySelector("summary").focus(); }
});

// The browser's own zone is offered too.
for (const select of document.querySelectorAll("[data-zones]")) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && ![...select.options].some((option) => option.value === zone)) select.add(new Option(zone, zone));
}

// A token in the fragment of the address logs in; it is never sent as part of one.
const login = document.querySelector("[data-login]");
if (login && location.hash.startsWith("#token=")) {
  login.elements.namedItem("secret").value = decodeURIComponent(location.hash.slice("#token=".length));
  history.replaceState(null, "", location.pathname + location.search);
  login.requestSubmit();
}

document.body.dataset.ready = "yes"; // for tests: keys work from now on
