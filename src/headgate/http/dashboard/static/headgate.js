// What a script adds to pages that can be read without one: theme, keys, dialogs, copying, and live updates.
import { beginLive, goTo, togglePause } from "./live.js";

const byId = (id) => document.getElementById(id);

function stored(name, value) {
  try {
    if (value === undefined) return localStorage.getItem(name);
    localStorage.setItem(name, value);
  } catch { /* Storage is switched off: nothing is remembered. */ }
  return null;
}

// ---------------------------------------------------------------- theme

function beginTheme() {
  const choice = byId("theme");
  choice.value = stored("headgate-theme") || "system";
  choice.addEventListener("change", () => {
    stored("headgate-theme", choice.value);
    if (choice.value === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice.value;
  });
}

// ---------------------------------------------------------------- the sign-in code behind the #

// The page that it leads to asks before anybody is signed in: somebody else may have made the link.
function takeCode() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (!code) return;
  history.replaceState(null, "", location.pathname + location.search);
  const form = byId("sign-in");
  if (!form) return;
  form.elements.token.value = code;
  form.submit();
}

// ---------------------------------------------------------------- dialogs

async function openAct(opener) {
  const answer = await fetch(opener.href, { headers: { Accept: "text/html" } });
  const form = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("form[data-act]");
  if (!form) { location.assign(opener.href); return; }
  const dialog = byId("act");
  dialog.replaceChildren(document.importNode(form, true));
  dialog.addEventListener("close", () => {
    dialog.replaceChildren();
    (document.getElementById(opener.id) || opener).focus();
  }, { once: true });
  dialog.showModal();
  dialog.querySelector("[data-keep]").focus();
}

function onClick(event) {
  const target = event.target.closest("a, button");
  if (!target || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (target.matches("a[data-dialog]")) {
    event.preventDefault();
    openAct(target).catch(() => location.assign(target.href));
  } else if (target.matches("dialog [data-keep]")) {
    event.preventDefault();
    target.closest("dialog").close();
  } else if (target.matches("[data-zoom]")) {
    event.preventDefault();
    goTo(target.href).catch(() => location.assign(target.href));
  } else if (target.matches("[data-copy]")) {
    navigator.clipboard.writeText(target.dataset.copy).then(() => say("Copied"));
  }
}

export function say(text) {
  const announcer = byId("announcer");
  announcer.textContent = "";
  setTimeout(() => { announcer.textContent = text; }, 250);
}

// ---------------------------------------------------------------- check boxes of a list

function picked(form) {
  const boxes = [...form.querySelectorAll("input[name=chunk]")];
  return { boxes, count: boxes.filter((box) => box.checked).length };
}

function tellPicked(form) {
  const { boxes, count } = picked(form);
  const matching = form.querySelector("[data-pick-matching]")?.checked;
  const all = form.querySelector("[data-pick-all]");
  all.checked = count > 0 && count === boxes.length;
  all.indeterminate = count > 0 && count < boxes.length;
  form.querySelector("[data-picked]").textContent = matching ? "All that match are selected" : count ? `${count} selected` : "";
}

function onChange(event) {
  const form = event.target.closest?.("form[data-bulk]");
  if (!form) return;
  if (event.target.matches("[data-pick-all]")) for (const box of picked(form).boxes) box.checked = event.target.checked;
  tellPicked(form);
}

function pickRow() {
  document.querySelector("tr[data-current] input[name=chunk]")?.click();
}

// ---------------------------------------------------------------- keys

let waitsForPlace = false;

function moveRow(step) {
  const rows = [...document.querySelectorAll("tbody[data-rows] > tr")];
  if (!rows.length) return;
  const now = rows.findIndex((row) => row.contains(document.activeElement));
  const row = rows[Math.min(Math.max(now + step, 0), rows.length - 1)];
  document.querySelector("tr[data-current]")?.removeAttribute("data-current");
  row.dataset.current = "";
  (row.querySelector("a, button") || row).focus();
}

const KEYS = {
  "?": () => byId("help").showModal(),
  "/": () => document.querySelector(".filters input")?.focus(),
  j: () => moveRow(1),
  k: () => moveRow(-1),
  x: pickRow,
  p: togglePause,
  g: () => { waitsForPlace = true; setTimeout(() => { waitsForPlace = false; }, 1500); },
};

const ARROWS = { ArrowRight: "right", ArrowLeft: "left", ArrowUp: "up", ArrowDown: "down" };

function onArrow(event) {
  const node = event.target.closest?.("a.node");
  const wanted = node && byId(node.dataset[ARROWS[event.key]]);
  if (!wanted) return;
  event.preventDefault();
  wanted.focus();
  wanted.scrollIntoView({ block: "nearest", inline: "nearest" });
}

// In the graph, + and - change its size, and 0 fits it into the page.
function zoom(event) {
  const key = event.key === "=" ? "+" : event.key;
  const button = event.target.closest?.(".graph-section") && document.querySelector(`[data-zoom="${CSS.escape(key)}"]`);
  if (button) { event.preventDefault(); button.click(); }
  return Boolean(button);
}

function onKey(event) {
  if (Object.hasOwn(ARROWS, event.key)) { onArrow(event); return; }
  const busy = event.target.closest?.("input:not([type=checkbox]), select, textarea, dialog, [contenteditable]");
  if (busy || event.ctrlKey || event.metaKey || event.altKey || stored("headgate-keys") === "off") return;
  if (zoom(event)) return;
  if (waitsForPlace) {
    waitsForPlace = false;
    document.querySelector(`a[data-key="${CSS.escape(event.key)}"]`)?.click();
  } else if (Object.hasOwn(KEYS, event.key)) {
    event.preventDefault();
    KEYS[event.key]();
  }
}

function beginHelp() {
  byId("help-open").addEventListener("click", () => byId("help").showModal());
  const off = byId("keys-off");
  off.checked = stored("headgate-keys") === "off";
  off.addEventListener("change", () => stored("headgate-keys", off.checked ? "off" : "on"));
}

// ---------------------------------------------------------------- begin

takeCode();
beginTheme();
beginHelp();
document.addEventListener("click", onClick);
document.addEventListener("keydown", onKey);
document.addEventListener("change", onChange);
beginLive(say);
// An alert that was there from the start is not read out: put it there once more.
const said = document.querySelector("#said p");
if (said) { const text = said.textContent; said.textContent = ""; setTimeout(() => { said.textContent = text; }, 50); }
