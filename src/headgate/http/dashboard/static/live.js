// Live pages: the server tells that something happened, the page is fetched again, and only what differs is changed.
import { morph, showNew } from "./morph.js";

const POLL = 5000;       // while there is no stream
const SLOW = 10000;      // while there is one: ages and leases change without an event
const GATHER = 300;      // events that come together are one refresh
const main = document.getElementById("main");
const nouns = (main.dataset.live || "").split(",").filter(Boolean);
let say = () => {};
let source = null;
let paused = false;
let updated = Date.now();
let state = "Live";
let gathering = null;
let asking = null;       // the page is being fetched
let again = false;
let leaving = false;     // a form was sent: what it changes is shown by the next page

export function beginLive(announce) {
  say = announce;
  if (!nouns.length || !document.getElementById("live")) return;
  document.getElementById("live").hidden = false;
  const button = document.getElementById("pause");
  button.hidden = false;
  button.addEventListener("click", togglePause);
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : resume()));
  document.addEventListener("click", (event) => {
    const wanted = event.target.closest?.("[data-show-new]");
    if (wanted) showNew(wanted.dataset.showNew);
  });
  document.addEventListener("submit", (event) => {
    leaving = event.target.method !== "dialog";
    if (leaving) asking?.abort();
  });
  window.addEventListener("pageshow", () => { leaving = false; });
  tick();
  setInterval(tick, 1000);
  if (!document.hidden) open();
}

export function togglePause() {
  if (!nouns.length) return;
  paused = !paused;
  const button = document.getElementById("pause");
  button.setAttribute("aria-pressed", String(paused));
  if (paused) { close(); show("Updates paused"); } else resume();
}

function resume() {
  if (paused || leaving) return;
  open();
  refresh();
}

function open() {
  close();
  source = new EventSource("/v1/events");
  source.onopen = () => { show("Live"); soon(); };
  source.onerror = () => {
    show("Reconnecting");
    // A refusal ends the stream for good, and is no reason to stop looking.
    if (source?.readyState === EventSource.CLOSED) { close(); setTimeout(() => { if (!source && !paused && !document.hidden) open(); }, POLL); }
  };
  for (const noun of nouns) source.addEventListener(noun, soon);
}

function close() {
  source?.close();
  source = null;
}

function soon() {
  gathering ??= setTimeout(() => { gathering = null; refresh(); }, GATHER);
}

function tick() {
  const age = Math.round((Date.now() - updated) / 1000);
  const words = age < 60 ? `${age} s` : `${Math.floor(age / 60)} min`;
  document.getElementById("live-age").textContent = `Updated ${words} ago`;
  if (paused || document.hidden) return;
  if (age * 1000 >= (source?.readyState === EventSource.OPEN ? SLOW : POLL)) refresh();
}

function show(word) {
  state = paused ? "Updates paused" : word;
  const place = document.getElementById("live");
  place.dataset.state = state;
  document.getElementById("live-word").textContent = state;
}

async function refresh() {
  if (asking) { again = true; return; }
  if (paused || leaving) return;
  asking = new AbortController();
  try {
    const { href } = location;
    const answer = await fetch(href, { headers: { Accept: "text/html" }, signal: asking.signal });
    if (answer.redirected && new URL(answer.url).pathname === "/sign-in") { location.assign(answer.url); return; }
    const text = await answer.text();
    if (answer.status < 500 && href === location.href) apply(text);
    if (answer.status >= 500) show("Reconnecting");
  } catch {
    if (!leaving) show("Reconnecting");
  } finally {
    asking = null;
    if (again) { again = false; soon(); }
  }
}

// Another view of the same page, at once and also while updates are paused; the focus stays where it is.
export async function goTo(href) {
  const answer = await fetch(href, { headers: { Accept: "text/html" } });
  if (!answer.ok || answer.redirected) { location.assign(href); return; }
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
  history.replaceState(null, "", href);
  morph(main, fresh);
}

function apply(text) {
  if (paused) return;
  const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("main");
  const before = main.dataset.announce;
  morph(main, fresh);
  updated = Date.now();
  if (source?.readyState === EventSource.OPEN) show("Live");
  if (fresh.dataset.announce !== before) say(fresh.dataset.announce);
}
