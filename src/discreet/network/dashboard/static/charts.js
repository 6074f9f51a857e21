"use strict";
// Draws rate and lag with uPlot, in the colours of the page.
(() => {
  const figure = document.querySelector("[data-chart]");
  const narrow = matchMedia("(max-width: 30rem)");
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const clock = { hour: "2-digit", minute: "2-digit", hour12: false };
  const duration = value => value < 1 ? `${Math.round(1000 * value)} ms` : `${value.toFixed(1)} s`;
  const plots = [];
  let data = null;

  function axes(format) {
    const common = { stroke: colour("--muted"), grid: { stroke: colour("--rule"), width: 1 },
      ticks: { stroke: colour("--rule"), width: 1 }, font: "12px system-ui, sans-serif" };
    const times = (_, ticks, axis, space, step) => ticks.map(t => new Date(1000 * t)
      .toLocaleTimeString([], step < 60 ? { ...clock, second: "2-digit" } : clock));
    return [{ ...common, space: narrow.matches ? 60 : 70, values: times },
      { ...common, size: 52, values: (_, ticks) => ticks.map(format) }];
  }

  // Without a pointer the legend shows the last values.
  const at = (plot, series, index) => plot.data[series][index ?? plot.data[series].findLastIndex(v => v != null)];
  const time = when => new Date(1000 * when).toLocaleTimeString([], { ...clock, second: "2-digit" });

  function plot(name, label, columns, format, height) {
    const box = figure.querySelector(`[data-plot=${name}]`);
    box.replaceChildren();
    box.classList.toggle("none", !columns[0].length);
    if (!columns[0].length) {
      const empty = document.createElement("p");
      empty.className = "empty";
      empty.textContent = "nothing yet in this window";
      box.append(empty);
      return;
    }
    plots.push(new uPlot({
      width: box.clientWidth, height, legend: { live: true }, cursor: { drag: { x: false, y: false } },
      scales: { y: { range: (_, least, most) => [0, Math.max(most, 1e-3) * 1.1] } }, axes: axes(format),
      series: [{ label: "time", value: (u, _, s, k) => time(at(u, s, k)) }, {
        label, width: 2, stroke: colour("--line"), fill: colour("--fill"),
        value: (u, _, s, k) => { const v = at(u, s, k); return v == null ? "–" : format(v); }, points: { show: columns[0].length < 3 },
      }],
    }, columns, box));
  }

  function draw() {
    if (!data) return;
    for (const each of plots.splice(0)) each.destroy();
    const { at, rate = [], lag_at = [], lag = [] } = data;
    plot("rate", "messages a second", [at, rate], v => v < 10 ? v.toFixed(1) : v.toFixed(0), 240);
    plot("lag", "lag", [lag_at, lag], duration, 130);
    const lags = new Map(lag_at.map((when, k) => [Math.round(when), lag[k]]));
    const rows = at.map((when, k) => {
      const delay = lags.get(Math.round(when));
      return [time(when), rate[k]?.toFixed(2) ?? "–",
        delay == null ? "–" : duration(delay)];
    });
    document.querySelector("#traffic-table tbody").replaceChildren(...rows.reverse().slice(0, 60).map(row));
  }

  function row(cells) {
    const found = document.createElement("tr");
    found.append(...cells.map((text, place) => {
      const cell = document.createElement("td");
      if (place) cell.className = "n";
      cell.textContent = text;
      return cell;
    }));
    return found;
  }

  async function load() {
    try {
      const answer = await fetch(figure.dataset.source);
      if (!answer.ok) return;
      data = await answer.json();
      draw();
    } catch { /* the server is unreachable; the page shows it, and a new connection loads again */ }
  }

  load();
  setInterval(load, 10000);
  document.addEventListener("reconnected", load);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new ResizeObserver(() => plots.forEach(each =>
    each.setSize({ width: each.root.parentElement.clientWidth, height: each.height }))).observe(document.querySelector("main"));
})();
