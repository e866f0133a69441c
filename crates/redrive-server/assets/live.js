// Keeps a page up to date: when the server says that something changed, the page is asked for again and what
// differs is put in its place. Without this script every page works, and shows the moment it was asked for.
(() => {
  const main = document.querySelector("main[data-live]");
  if (!main || !window.Worker) return;
  const state = document.getElementById("live");
  const say = (text) => { if (state && state.textContent !== text) state.textContent = text; };
  let seen = main.dataset.live, busy = false, again = false, lost = false;

  // A form that somebody is filling in stays as it is.
  const isInUse = (form) => form.contains(document.activeElement)
    || [...form.elements].some((field) => field.type === "text" && field.value !== field.defaultValue);

  // Changes what differs and leaves the rest, so that focus, scrolling and open details stay where they are.
  const become = (old, fresh) => {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) { old.replaceWith(fresh); return; }
    if (old.nodeType !== Node.ELEMENT_NODE) { old.nodeValue = fresh.nodeValue; return; }
    if (old.nodeName === "FORM" && isInUse(old)) return;
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    becomeInside(old, fresh);
  };
  const becomeInside = (old, fresh) => {
    const before = [...old.childNodes], after = [...fresh.childNodes];
    after.forEach((node, place) => { if (place < before.length) become(before[place], node); else old.append(node); });
    before.slice(after.length).forEach((node) => node.remove());
  };

  const refresh = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, credentials: "same-origin" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = answer.ok && page.querySelector("main[data-live]");
      if (fresh) { becomeInside(main, fresh); main.dataset.live = fresh.dataset.live; say("live"); }
    } catch { say("waiting for the server"); }
    busy = false;
    if (again) { again = false; setTimeout(refresh, 1000); }
  };

  // One listens for all pages; see there.
  const listener = window.SharedWorker ? new SharedWorker("/assets/events.js").port : new Worker("/assets/events.js");
  listener.onmessage = ({ data }) => {
    if (data.state === "lost") { lost = true; say("waiting for the server"); }
    // A server that was away may have started anew, and counts from one again.
    if (data.state === "live") { say("live"); if (lost) { lost = false; refresh(); } }
    if (data.version && data.version !== seen) { seen = data.version; refresh(); }
  };
  const show = () => listener.postMessage(document.hidden ? "hidden" : "shown");
  document.addEventListener("visibilitychange", show);
  window.addEventListener("pageshow", show);
  window.addEventListener("pagehide", () => listener.postMessage("hidden"));
  show();
})();
