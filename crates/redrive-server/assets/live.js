// Keeps a page up to date: when the server reports a change, the script fetches the page again and replaces what differs.
// Pages work without this script.
(() => {
  const main = document.querySelector("main[data-live]");
  if (!main || !window.Worker) return;
  const state = document.getElementById("live");
  const showState = (text) => { if (state && state.textContent !== text) state.textContent = text; };
  // The session has ended, or its token was changed.
  const showSignIn = () => {
    const link = document.createElement("a");
    link.href = "/login?next=" + encodeURIComponent(location.pathname + location.search);
    link.textContent = "sign in again";
    if (state) state.replaceChildren(link);
  };
  let seen = main.dataset.live, busy = false, again = false, lost = false;

  // Forms, and controls outside of forms, that have the focus or unsaved changes. They stay as they are.
  let inUse = [], isStale = false;
  const CONTROLS = "input, textarea, select, button";
  const isChanged = (control) => {
    switch (control.type) {
      case "hidden": case "submit": case "button": case "reset": return false;
      case "checkbox": case "radio": return control.checked !== control.defaultChecked;
      case "select-one": {
        const given = [...control.options].findIndex((option) => option.defaultSelected);
        return control.selectedIndex !== Math.max(given, 0);
      }
      default: return control.value !== control.defaultValue;
    }
  };
  const findInUse = () => [...main.querySelectorAll(CONTROLS)]
    .filter((control) => control === document.activeElement || isChanged(control))
    .map((control) => control.closest("form") || control);

  // What a form is for: its action and the hidden fields, such as the id of a run.
  const purpose = (part) => {
    const hidden = [...part.querySelectorAll("input[type=hidden]")].map(({ name, value }) => [name, value]);
    const box = part.type === "checkbox" ? part.value : null;
    return JSON.stringify([part.nodeName, part.getAttribute("action"), part.getAttribute("name"), box, hidden]);
  };
  const hasPart = (node, part) => node.nodeType === Node.ELEMENT_NODE
    && [node, ...node.querySelectorAll(part.nodeName)].some((other) => purpose(other) === purpose(part));

  // Replaces only what differs, so that focus, scroll position, open details and typed text stay.
  const patch = (old, fresh) => {
    if (old.isEqualNode(fresh)) return;
    if (inUse.includes(old)) { isStale = true; return; }
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) { old.replaceWith(fresh); return; }
    if (old.nodeType !== Node.ELEMENT_NODE) { old.nodeValue = fresh.nodeValue; return; }
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    patchChildren(old, fresh);
  };
  // A child with a part in use is patched with the fresh child that has the same part. Without one it is kept, and the
  // children on both sides are patched around it.
  const patchChildren = (old, fresh) => {
    const before = [...old.childNodes], after = [...fresh.childNodes];
    const counterpart = (node, index, part, from) => {
      const found = after.findIndex((other, at) => at >= from && other.nodeName === node.nodeName && hasPart(other, part));
      // A row of a table is about one unit: another row is no counterpart.
      if (found >= 0 || node.nodeName === "TR") return found;
      const isAlike = before.length === after.length && index >= from && after[index].nodeName === node.nodeName;
      return isAlike ? index : -1;
    };
    let oldFrom = 0, freshFrom = 0;
    before.forEach((node, index) => {
      const part = inUse.find((part) => node.contains(part));
      if (!part) return;
      const found = counterpart(node, index, part, freshFrom);
      const end = found >= 0 ? found : Math.min(freshFrom + index - oldFrom, after.length);
      patchRange(old, before.slice(oldFrom, index), after.slice(freshFrom, end), node);
      if (found >= 0) patch(node, after[found]); else isStale = true;
      [oldFrom, freshFrom] = [index + 1, found >= 0 ? found + 1 : end];
    });
    patchRange(old, before.slice(oldFrom), after.slice(freshFrom), null);
  };
  // Rows with keys stay with their units while others come and go, so that no row moves from under the focus.
  const patchRows = (parent, before, after, next) => {
    const known = new Map(before.map((row) => [row.dataset.key, row]));
    let at = before.length ? before[0] : next;
    for (const row of after) {
      const old = known.get(row.dataset.key);
      if (!old || !old.isConnected) { parent.insertBefore(row, at); continue; }
      while (at !== old) { const gone = at; at = at.nextSibling; gone.remove(); }
      at = old.nextSibling;
      patch(old, row);
    }
    while (at !== next) { const gone = at; at = at.nextSibling; gone.remove(); }
  };
  const areRows = (nodes) => nodes.every((node) => node.nodeName === "TR" && node.dataset.key);
  const patchRange = (parent, before, after, next) => {
    if (before.length && after.length && areRows([...before, ...after])) { patchRows(parent, before, after, next); return; }
    after.forEach((node, index) => { if (index < before.length) patch(before[index], node); else parent.insertBefore(node, next); });
    before.slice(after.length).forEach((node) => node.remove());
  };
  const patchMain = (fresh) => {
    [inUse, isStale] = [findInUse(), false];
    patchChildren(main, fresh);
    main.dataset.live = fresh.dataset.live;
  };

  const refresh = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, credentials: "same-origin" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (answer.redirected && new URL(answer.url).pathname === "/login") { showSignIn(); return; }
      if (!answer.ok) showState("waiting for the server");
      const fresh = answer.ok && page.querySelector("main[data-live]");
      if (fresh) { patchMain(fresh); showState("live"); }
    } catch { showState("waiting for the server"); } finally { busy = false; }
    if (again) { again = false; setTimeout(refresh, 1000); }
  };

  // A part that was kept is brought up to date when it is left. The focus moves after this event.
  main.addEventListener("focusout", () => { if (isStale) setTimeout(refresh); });

  // One worker serves all pages; see events.js.
  const listener = window.SharedWorker ? new SharedWorker("/assets/events.js").port : new Worker("/assets/events.js");
  listener.onmessage = ({ data }) => {
    if (data.state === "lost") { lost = true; refresh(); }
    // A restarted server counts versions from one again.
    if (data.state === "live") { showState("live"); if (lost) { lost = false; refresh(); } }
    if (data.version && data.version !== seen) { seen = data.version; refresh(); }
  };
  const show = () => listener.postMessage(document.hidden ? "hidden" : "shown");
  document.addEventListener("visibilitychange", show);
  window.addEventListener("pageshow", show);
  window.addEventListener("pagehide", () => listener.postMessage("hidden"));
  show();
})();
