// What the pages do beyond reading: follow the second, zoom into charts, switch between light and dark, make and drop reports.
// The server sends whole pages; this swaps the parts marked data-live.
"use strict";
(() => {
  const root = document.documentElement;
  const store = {
    get: (key) => { try { return localStorage.getItem(key); } catch { return null; } },
    set: (key, value) => { try { localStorage.setItem(key, value); } catch { /* then it is not remembered */ } },
  };

  // Before the page is painted, so that it does not flash.
  const theme = store.get("theme");
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;

  // Three digits, thousands apart, as the pages have them; without Intl, which takes long to wake up.
  const number = (value) => value && value < 99.95 ? value.toPrecision(3) : value.toFixed(0).replace(/\B(?=(\d{3})+$)/g, ",");

  const rate = (value, many) => number(value) + " " + many + "/s";
  const secs = (value) => value < 0.9995 ? number(value * 1000) + " ms" : number(value) + " s";

  // The browser's own zone is one click away.
  function zones(shown) {
    const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
    if (!own || own === shown.querySelector("b").textContent) return;
    const there = new URL(location.href);
    there.searchParams.set("tz", own);
    shown.append(" \u00b7 ", Object.assign(document.createElement("a"), { href: there.pathname + there.search, textContent: own }));
  }

  // Somebody who reads or uses a part keeps it as it is.
  function inUse(part) {
    if (part.contains(document.activeElement) || part.querySelector(".zoom")) return true;
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && part.contains(selection.anchorNode);
  }

  let asking = false;
  let looked = 0;
  async function refresh() {
    if (asking || document.hidden) return;
    asking = true;
    looked = performance.now();
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (!answer.ok && answer.status !== 404) return;
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      // Its report was dropped.
      if (!answer.ok) return document.getElementById("troubles").replaceChildren(next.querySelector(".problem"));
      for (const part of document.querySelectorAll("[data-live]")) {
        const other = next.getElementById(part.id);
        if (!other || inUse(part)) continue;
        const said = next.getElementById("sent");
        if (said) said.textContent = sent;
        if (other.isEqualNode(part)) continue;
        const left = [...part.querySelectorAll(".wide")].map((wide) => wide.scrollLeft);
        part.replaceChildren(...other.childNodes);
        part.querySelectorAll(".wide").forEach((wide, at) => { wide.scrollLeft = left[at] || 0; });
      }
    } catch { /* the next second tries again */ } finally {
      asking = false;
    }
  }

  // How long after it was asked for a page is as good as new.
  const FRESH_MS = 900;

  // How long without an event a page is live.
  const LATE_MS = 4000;

  function live(button, tick) {
    let events = null;
    let again = 0;
    let late = 0;
    let last = {};
    // In parts: a phone has room for the first only.
    const say = (...parts) => {
      delete root.dataset.away;
      const part = (text, at) => Object.assign(document.createElement("span"), { textContent: (at ? " \u00b7 " : "") + text });
      tick.replaceChildren(...parts.map(part));
    };
    // The page's own charts of all requests, if it has them, so that both are of one moment.
    function tell() {
      const own = [...document.querySelectorAll("[data-now]")].map((it) => JSON.parse(it.dataset.now));
      const now = own.length ? Object.assign({}, ...own) : last;
      const parts = [];
      if (now.req_per_sec !== undefined) parts.push("last 5 s: " + rate(now.req_per_sec, "requests"));
      if (now.p95 !== undefined) parts.push("p95 " + secs(now.p95));
      if (now.errors_per_sec !== undefined) parts.push(rate(now.errors_per_sec, "errors"));
      say(...parts);
    }
    function wait() {
      clearTimeout(late);
      late = setTimeout(() => {
        say("not live", "the daemon is busy or away");
        root.dataset.away = "";
      }, LATE_MS);
    }
    function stop() {
      clearTimeout(again);
      clearTimeout(late);
      if (events) events.close();
      events = null;
    }
    function start() {
      stop();
      wait();
      events = new EventSource("/events");
      events.addEventListener("second", (event) => {
        wait();
        last = JSON.parse(event.data);
        tell();
        // The first event comes at once: the page is no older. What is past changes by the minute, if at all.
        const past = document.getElementById("main").dataset.past;
        const due = past === undefined ? FRESH_MS : past * 1000 || Infinity;
        if (performance.now() - (past ? looked : 0) > due && document.querySelector("[data-live]")) {
          refresh().then(() => { if (events && root.dataset.away === undefined) tell(); });
        }
      });
      events.onerror = () => {
        if (events && events.readyState === EventSource.CLOSED) again = setTimeout(start, 5000);
      };
    }
    function show(paused) {
      button.textContent = paused ? "Resume" : "Pause";
      button.setAttribute("aria-pressed", String(paused));
      if (paused) { stop(); say("paused"); } else start();
    }
    let paused = store.get("paused") === "yes";
    button.hidden = false;
    button.addEventListener("click", () => {
      paused = !paused;
      store.set("paused", paused ? "yes" : "no");
      show(paused);
    });
    show(paused);
    addEventListener("pagehide", stop);
    addEventListener("pageshow", (event) => { if (event.persisted && !paused) start(); });
  }

  function themes(button) {
    button.hidden = false;
    const system = matchMedia("(prefers-color-scheme: dark)");
    const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
    const name = () => { button.textContent = dark() ? "Light" : "Dark"; };
    name();
    system.addEventListener("change", name);
    button.addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      store.set("theme", root.dataset.theme);
      name();
    });
  }

  // The API wants JSON and checks where the page is from.
  async function change(method, path, body) {
    const answer = await fetch(path, {
      method,
      headers: { "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (answer.ok) return null;
    try { return (await answer.json()).detail; } catch { return "the daemon refused: " + answer.status; }
  }

  function makeReports(form, said) {
    form.hidden = false;
    // A link filled it in. Going to the fragment of its address takes the focus away before the load.
    if (form.elements.definition.value) addEventListener("load", () => form.elements.name.focus());
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const name = form.elements.name.value.trim();
      const text = form.elements.definition.value.trim();
      let body = { name, comment: text };
      if (text.startsWith("{")) {
        try { body = { ...JSON.parse(text), name }; } catch (error) {
          said.textContent = "This is not JSON: " + error.message;
          return;
        }
      }
      const refused = await change("POST", "/api/v1/reports", body);
      if (refused) said.textContent = refused; else location.assign("/reports/" + encodeURIComponent(name));
    });
  }

  function dropReports() {
    for (const button of document.querySelectorAll("button[data-drop]")) {
      button.hidden = false;
      button.addEventListener("click", async () => {
        const name = button.dataset.drop;
        if (!confirm("Drop the report " + name + "? Its data is gone then.")) return;
        const refused = await change("DELETE", "/api/v1/reports/" + encodeURIComponent(name));
        if (refused) alert(refused); else location.reload();
      });
    }
  }

  // The page goes over to what became of the packet by itself.
  let sent = "";
  function sendTestPackets() {
    addEventListener("click", async (event) => {
      const button = event.target.closest("button[data-send]");
      if (!button) return;
      button.blur();
      const refused = await change("POST", "/api/v1/test-packet");
      sent = refused || "Sent: it should show up here within a second. If not, see Daemon.";
      const said = document.getElementById("sent");
      if (said) said.textContent = sent;
    });
  }

  // A drag over a chart leads to that part of its span.
  function zoom() {
    let drag = null;
    const end = () => { if (drag) drag.box.remove(); drag = null; };
    const move = (event) => {
      if (!drag) return;
      const { left, width } = drag.plot.getBoundingClientRect();
      const part = (x) => Math.min(1, Math.max(0, (x - left) / width));
      drag.parts = [part(drag.x), part(event.clientX)].sort((a, b) => a - b);
      const [x, wide] = [drag.plot.x.baseVal.value, drag.plot.width.baseVal.value];
      drag.box.setAttribute("x", x + wide * drag.parts[0]);
      drag.box.setAttribute("width", wide * (drag.parts[1] - drag.parts[0]));
    };
    addEventListener("pointerdown", (event) => {
      const plot = event.target.closest("svg")?.querySelector(".plot");
      if (!plot || event.button || event.pointerType === "touch") return;
      event.preventDefault();
      const box = plot.cloneNode();
      box.setAttribute("class", "zoom");
      plot.after(box);
      drag = { plot, box, x: event.clientX };
      move(event);
    });
    addEventListener("pointermove", move);
    addEventListener("pointercancel", end);
    addEventListener("pointerup", () => {
      const { plot, parts: [first, last] } = drag || { parts: [0, 0] };
      end();
      if (last - first < 0.02) return;
      const [from, to] = [plot.dataset.from, plot.dataset.to].map(Number);
      const at = (part) => new Date(Math.round(from + (to - from) * part) * 1000).toISOString().replace(".000", "");
      const there = new URL(location.href);
      for (const name of ["span", "offset", "before_id"]) there.searchParams.delete(name);
      there.searchParams.set("from", at(first));
      there.searchParams.set("to", at(last));
      location.assign(there);
    });
  }

  // A column of a heat map leads to its requests, and a cell to those that took as long.
  function cells() {
    document.addEventListener("click", (event) => {
      const column = event.target.closest("[data-edges] a");
      if (!column || !event.detail) return;
      const edges = column.parentNode.dataset.edges.split(",");
      const { bottom, height } = column.getBoundingClientRect();
      const row = Math.floor((bottom - event.clientY) / height * (edges.length - 1));
      const at = Math.min(edges.length - 2, Math.max(0, row));
      const there = new URL(column.href.baseVal, location.href);
      if (at) there.searchParams.set("min_time", edges[at] / 1e6);
      there.searchParams.set("max_time", (edges[at + 1] - 1) / 1e6);
      event.preventDefault();
      location.assign(there);
    });
  }

  document.addEventListener("DOMContentLoaded", () => {
    zoom();
    cells();
    sendTestPackets();
    const zone = document.querySelector("#zone[data-zones]");
    // Intl takes long to wake up.
    if (zone) addEventListener("load", () => setTimeout(zones, 0, zone));
    themes(document.getElementById("theme"));
    const make = document.getElementById("make");
    if (make) makeReports(make, document.getElementById("made"));
    dropReports();
    // Addresses go without fields that were left empty.
    for (const form of document.querySelectorAll("form[method=get]")) {
      form.addEventListener("formdata", (event) => {
        for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
      });
    }
    live(document.getElementById("live"), document.getElementById("tick"));
  });
})();
