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
    link.href = "/login";
    link.textContent = "sign in again";
    if (state) state.replaceChildren(link);
  };
  let seen = main.dataset.live, busy = false, again = false, lost = false;

  // A form in use is not replaced.
  const isInUse = (form) => form.contains(document.activeElement)
    || [...form.elements].some((field) => field.type === "text" && field.value !== field.defaultValue);

  // Replaces only what differs, so that focus, scroll position and open details stay.
  const patch = (old, fresh) => {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) { old.replaceWith(fresh); return; }
    if (old.nodeType !== Node.ELEMENT_NODE) { old.nodeValue = fresh.nodeValue; return; }
    if (old.nodeName === "FORM" && isInUse(old)) return;
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    patchChildren(old, fresh);
  };
  const patchChildren = (old, fresh) => {
    const before = [...old.childNodes], after = [...fresh.childNodes];
    after.forEach((node, index) => { if (index < before.length) patch(before[index], node); else old.append(node); });
    before.slice(after.length).forEach((node) => node.remove());
  };

  const refresh = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, credentials: "same-origin" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (answer.redirected && new URL(answer.url).pathname === "/login") { showSignIn(); return; }
      const fresh = answer.ok && page.querySelector("main[data-live]");
      if (fresh) { patchChildren(main, fresh); main.dataset.live = fresh.dataset.live; showState("live"); }
    } catch { showState("waiting for the server"); } finally { busy = false; }
    if (again) { again = false; setTimeout(refresh, 1000); }
  };

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
