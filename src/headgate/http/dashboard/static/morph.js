// Makes one tree like another, and leaves alone what is the same: focus, selection and scrolling stay where they are.
const waitingRows = new Map();   // by table: what was fetched while somebody was at its rows

export function morph(old, fresh) {
  copyAttributes(old, fresh);
  if (old.matches("tbody[data-rows]")) morphRows(old, fresh);
  else morphChildren(old, fresh);
}

function copyAttributes(old, fresh) {
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !["data-current", "open", "hidden"].includes(name)) old.removeAttribute(name);
  }
}

function morphChildren(old, fresh) {
  const known = new Map([...old.children].filter((each) => each.id).map((each) => [each.id, each]));
  let place = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const found = wanted.id ? known.get(wanted.id) : fits(place, wanted) ? place : null;
    if (!found) { old.insertBefore(document.importNode(wanted, true), place); continue; }
    if (found === place) place = place.nextSibling;
    else old.insertBefore(found, place);
    morphNode(found, wanted);
  }
  while (place) { const gone = place; place = place.nextSibling; gone.remove(); }
}

function fits(place, wanted) {
  return place && place.nodeType === wanted.nodeType && place.nodeName === wanted.nodeName && !place.id;
}

function morphNode(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
  } else if (old.isEqualNode(fresh) || old.matches("input, select, textarea, [data-show-new], [data-picked]")) {
    // Nothing differs, or it is the reader's own.
  } else morph(old, fresh);
}

// Rows do not move under a pointer or a focus: they change in place, those that are gone are crossed out, and new ones
// wait behind a button.
function morphRows(old, fresh) {
  const name = old.closest("table").id;
  if (!isBusy(old)) { settle(old, fresh, name); return; }
  const wanted = new Map([...fresh.children].map((row) => [row.id, row]));
  for (const row of old.children) {
    const found = wanted.get(row.id);
    row.toggleAttribute("data-gone", !found);
    if (found) { morphNode(row, found); wanted.delete(row.id); }
  }
  waitingRows.set(name, document.importNode(fresh, true));
  tell(name, wanted.size);
}

function isBusy(rows) {
  return rows.matches(":hover") || rows.contains(document.activeElement);
}

function settle(old, fresh, name) {
  waitingRows.delete(name);
  for (const row of old.children) row.removeAttribute("data-gone");
  morphChildren(old, fresh);
  tell(name, 0);
}

function tell(name, count) {
  const button = document.querySelector(`[data-show-new="${CSS.escape(name)}"]`);
  if (!button) return;
  button.hidden = !count;
  button.textContent = count ? `${count} new: show` : "";
}

export function showNew(name) {
  const fresh = waitingRows.get(name);
  const old = document.getElementById(name)?.tBodies[0];
  if (fresh && old) settle(old, fresh, name);
}
