// Keeps a page up to date: when the server says that something changed, the page is asked for again and what
// differs is put in its place. Without this script every page works, and shows the moment it was asked for.
(() => {
  const main = document.querySelector("main[data-live]");
  if (!main || !window.EventSource) return;
  const state = document.getElementById("live");
  const say = (text) => { if (state) state.textContent = text; };
  let seen = main.dataset.live, busy = false, again = false;

  const isBusyTyping = () => {
    const active = document.activeElement;
    return active && main.contains(active) && /^(INPUT|SELECT|TEXTAREA|BUTTON)$/.test(active.tagName);
  };

  const refresh = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, credentials: "same-origin" });
      if (answer.ok && !isBusyTyping()) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = page.querySelector("main[data-live]");
        if (fresh) {
          const open = [...main.querySelectorAll("details[open]")].map((it) => it.id);
          main.replaceChildren(...fresh.childNodes);
          open.forEach((id) => { const it = id && document.getElementById(id); if (it) it.open = true; });
          say("live");
        }
      }
    } catch { say("waiting for the server"); }
    busy = false;
    if (again) { again = false; setTimeout(refresh, 1000); }
  };

  const events = new EventSource("/events");
  events.onopen = () => say("live");
  events.onerror = () => say("waiting for the server");
  events.addEventListener("changed", (event) => {
    if (event.data !== seen) { seen = event.data; refresh(); }
  });
})();
