"use strict";
// Draws the charts with uPlot, in the colours of the page, and adds points as they come.
(() => {
  const narrow = matchMedia("(max-width: 30rem)");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const palette = ["--line", "--second", "--good-line", "--bad-line", "--warn-line", "--muted"];
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const share = value => value == null ? "–" : `${Math.round(100 * value)} %`;

  function axes(format, size) {
    const common = { stroke: colour("--muted"), grid: { stroke: colour("--rule"), width: 1 },
      ticks: { stroke: colour("--rule"), width: 1 }, font: "12px system-ui, sans-serif" };
    const clock = { hour: "2-digit", minute: "2-digit", hour12: false };
    const times = (_, ticks, axis, space, step) => ticks.map(t => new Date(1000 * t)
      .toLocaleTimeString([], step < 60 ? { ...clock, second: "2-digit" } : clock));
    return [{ ...common, space: narrow.matches ? 60 : 70, values: times },
      { ...common, size, values: (_, ticks) => ticks.map(format) }];
  }

  function plot(box, series, data, format, low, top) {
    box.replaceChildren();
    box.classList.toggle("none", !data[0].length);
    if (!data[0].length) {
      const empty = document.createElement("p");
      empty.className = "empty";
      empty.textContent = "nothing yet in this window";
      box.append(empty);
      return null;
    }
    const range = top === undefined ? (_, least, most) => [0, Math.max(most, 1e-3) * 1.1] : [0, top];
    return new uPlot({
      width: box.clientWidth, height: low ? 130 : 240, legend: { live: true },
      cursor: { drag: { x: false, y: false } },
      scales: { y: { range } }, axes: axes(format, 52),
      series: [{ label: "time", value: "{HH}:{mm}:{ss}" }, ...series.map((each, k) => ({
        label: each, width: 2, stroke: colour(palette[k]), value: (_, v) => v == null ? "–" : format(v),
        fill: series.length === 1 ? colour("--fill") : undefined, points: { show: data[0].length < 3 },
      }))],
    }, data, box);
  }

  class Chart {
    constructor(figure) {
      this.figure = figure;
      this.plots = [];
      this.data = null;
    }

    box(name) { return this.figure.querySelector(`[data-plot=${name}]`); }

    async load() {
      try {
        const answer = await fetch(this.figure.dataset.source);
        if (!answer.ok) return;
        this.data = await answer.json();
        this.draw();
      } catch { /* the server is unreachable; the page shows it, and a new connection loads again */ }
    }

    draw() {
      if (!this.data) return;
      for (const each of this.plots) each?.destroy();
      this.plots = this.figure.dataset.chart === "decisions" ? this.decisions() : this.traffic();
    }

    decisions() {
      const { at, classes = [], probabilities = [], reported = [] } = this.data;
      return [
        plot(this.box("probability"), classes.map(each => `P(${each})`), [at, ...probabilities], share, false, 1),
        plot(this.box("reported"), ["sensors reporting"], [at, reported], share, true, 1),
      ];
    }

    traffic() {
      const { at, rate = [], lag_at = [], lag = [] } = this.data;
      this.table(at, rate, lag_at, lag);
      return [
        plot(this.box("rate"), ["messages a second"], [at, rate], v => v < 10 ? v.toFixed(1) : v.toFixed(0), false),
        plot(this.box("lag"), ["lag"], [lag_at, lag], v => v < 1 ? `${Math.round(1000 * v)} ms` : `${v.toFixed(1)} s`, true),
      ];
    }

    table(at, rate, lagAt, lag) {
      const body = document.querySelector("#traffic-table tbody");
      const lags = new Map(lagAt.map((when, k) => [Math.round(when), lag[k]]));
      body.replaceChildren(...at.map((when, k) => {
        const row = document.createElement("tr");
        const delay = lags.get(Math.round(when));
        const cells = [new Date(1000 * when).toLocaleTimeString([], { hour12: false }), rate[k]?.toFixed(2) ?? "–",
          delay == null ? "–" : `${Math.round(1000 * delay)} ms`];
        row.append(...cells.map((text, place) => {
          const cell = document.createElement("td");
          if (place) cell.className = "n";
          cell.textContent = text;
          return cell;
        }));
        return row;
      }).reverse().slice(0, 60));
    }

    add(point) {
      if (this.figure.dataset.chart !== "decisions" || !this.data) return;
      const { at, probabilities, reported } = this.data;
      if (at.length && point.at <= at.at(-1)) return;
      at.push(point.at);
      probabilities?.forEach((line, k) => line.push(point.probabilities[k]));
      reported?.push(point.reported);
      const since = point.at - Number(new URL(this.figure.dataset.source, location).searchParams.get("window"));
      while (at.length && at[0] < since) for (const line of [at, ...probabilities, reported]) line.shift();
      if (this.plots.some(each => !each)) { this.draw(); return; }
      this.plots[0].setData([at, ...probabilities]);
      this.plots[1].setData([at, reported]);
    }

    resize() {
      for (const each of this.plots) each?.setSize({ width: each.root.parentElement.clientWidth, height: each.height });
    }
  }

  const charts = [...document.querySelectorAll("[data-chart]")].map(each => new Chart(each));
  const loadAll = () => charts.forEach(each => each.load());
  loadAll();
  if (document.body.dataset.view === "system") setInterval(loadAll, 10000);
  document.addEventListener("point", event => charts.forEach(each => each.add(event.detail)));
  document.addEventListener("reconnected", loadAll);
  dark.addEventListener("change", () => charts.forEach(each => each.draw()));
  new ResizeObserver(() => charts.forEach(each => each.resize())).observe(document.querySelector("main"));
})();
