"use strict";
// Puts the parts of the page that have changed in their place, and shows times as the reader's.
(() => {
  const link = document.getElementById("link");
  const words = document.getElementById("link-words");
  const spoken = document.getElementById("spoken");

  function say(state, text) {
    link.dataset.state = state;
    if (words.textContent !== text) words.textContent = text;
  }

  function ago(seconds) {
    if (seconds < 1.5) return "now";
    if (seconds < 90) return `${Math.round(seconds)} s ago`;
    if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
    if (seconds < 129600) return `${Math.round(seconds / 3600)} h ago`;
    return `${Math.round(seconds / 86400)} days ago`;
  }

  const zone = new Intl.DateTimeFormat([], { timeZoneName: "short" }).formatToParts()
    .find(each => each.type === "timeZoneName").value;

  function localize() {
    for (const each of document.querySelectorAll("[data-zone]")) each.textContent = zone;
    for (const each of document.querySelectorAll("time[data-clock]")) {
      each.textContent = new Date(each.dateTime).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
    }
  }

  function tick() {
    for (const each of document.querySelectorAll("time[data-ago]")) {
      const at = new Date(each.dateTime);
      const text = ago((Date.now() - at) / 1000);
      if (each.textContent !== text) each.textContent = text;
      if (!each.title) each.title = `${at.toLocaleString()} ${zone}`;
    }
  }

  // A part that holds the focus gets it back on the element in the same place.
  function replace(part, html) {
    const links = () => [...part.querySelectorAll("a, button, summary, [tabindex]")];
    const place = links().indexOf(document.activeElement);
    part.innerHTML = html; // made by the server from templates that escape
    if (place >= 0) links()[place]?.focus({ preventScroll: true });
  }

  function show(news) {
    for (const [name, html] of Object.entries(news.parts)) {
      const part = document.getElementById(name);
      if (part) replace(part, html);
    }
    tick();
    localize();
    if (spoken.textContent !== news.status) spoken.textContent = news.status;
  }

  function listen() {
    const source = new EventSource(document.body.dataset.events);
    let seen = false;
    source.addEventListener("open", () => {
      say("live", "live");
      if (seen) document.dispatchEvent(new Event("reconnected"));
      seen = true;
    });
    source.addEventListener("state", event => show(JSON.parse(event.data)));
    source.addEventListener("logout", () => { source.close(); location.reload(); });
    source.addEventListener("error", () => {
      say("lost", "connection lost, trying again");
      if (source.readyState !== EventSource.CLOSED) return;
      // Refused rather than lost: the login has ended, or too many pages are open.
      fetch("api/state").then(answer => answer.status === 401 ? location.reload() : setTimeout(listen, 10000))
        .catch(() => setTimeout(listen, 3000));
    });
    addEventListener("pagehide", () => source.close());
  }

  tick();
  localize();
  setInterval(tick, 1000);
  say("waiting", "connecting");
  listen();
})();
