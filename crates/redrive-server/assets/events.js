// One event stream for all open pages of a browser: a browser opens at most six connections to a server, and a stream for
// each page would use them up. The stream is open only while a page is visible.
"use strict";
const RETRY_MS = 5000;
const visible = new Set();
let events = null, version = null, waiting = 0;

const broadcast = (message) => { for (const page of visible) page.postMessage(message); };

const disconnect = () => {
  clearTimeout(waiting);
  if (events) events.close();
  events = version = null;
};

const connect = () => {
  events = new EventSource("/events");
  events.onopen = () => broadcast({ state: "live" });
  events.onerror = () => {
    broadcast({ state: "lost" });
    // The browser reconnects by itself, except after an error response.
    if (events.readyState === EventSource.CLOSED) { disconnect(); waiting = setTimeout(update, RETRY_MS); }
  };
  events.addEventListener("changed", (event) => { version = event.data; broadcast({ version }); });
};

const update = () => {
  if (visible.size === 0) disconnect();
  else if (!events) connect();
};

const attach = (page) => {
  page.onmessage = ({ data }) => {
    if (data === "shown") {
      visible.add(page);
      if (events && events.readyState === EventSource.OPEN) page.postMessage({ state: "live" });
      if (version) page.postMessage({ version });
    } else {
      visible.delete(page);
    }
    update();
  };
};

// Without shared workers each page has its own.
if ("onconnect" in self) self.onconnect = (event) => attach(event.ports[0]);
else attach(self);
