// Listens to the server for every open page of a browser, which has only six connections to a server: each page with
// one of its own would soon leave none to load a page with. It listens only while some page can be seen.
"use strict";
const RETRY_MS = 5000;
const shown = new Set();
let events = null, version = null, waiting = 0;

const tell = (news) => { for (const page of shown) page.postMessage(news); };

const hush = () => {
  clearTimeout(waiting);
  if (events) events.close();
  events = version = null;
};

const listen = () => {
  events = new EventSource("/events");
  events.onopen = () => tell({ state: "live" });
  events.onerror = () => {
    tell({ state: "lost" });
    // The browser tries again by itself, but not after a refusal; there may be room later.
    if (events.readyState === EventSource.CLOSED) { hush(); waiting = setTimeout(heed, RETRY_MS); }
  };
  events.addEventListener("changed", (event) => { version = event.data; tell({ version }); });
};

const heed = () => {
  if (shown.size === 0) hush();
  else if (!events) listen();
};

const meet = (page) => {
  page.onmessage = ({ data }) => {
    if (data === "shown") {
      shown.add(page);
      if (events && events.readyState === EventSource.OPEN) page.postMessage({ state: "live" });
      if (version) page.postMessage({ version });
    } else {
      shown.delete(page);
    }
    heed();
  };
};

// Where workers cannot be shared, each page has one.
if ("onconnect" in self) self.onconnect = (event) => meet(event.ports[0]);
else meet(self);
