// How loaded each link was over time: a row a link, dark where it was full.

const HEAT_STEPS = 8;
const LOAD_MAX = 35; // full

// `all`: names, and loads: one list of numbers a link, one a column, 0 (idle) to `LOAD_MAX`.  Columns are from `beginS` to `untilS`.
function linksPart(all, untilS, beginS = 0) {
  const used = all.names.map((_, row) => row).filter((row) => all.loads[row].some((load) => load > 0));
  const links = { names: used.map((row) => all.names[row]), loads: used.map((row) => all.loads[row]) };
  if (!used.length) return null;
  const idle = all.names.length - used.length;
  const columns = links.loads[0].length;
  const step = Math.max(3, Math.min(12, 420 / links.names.length));
  const columnAt = (timeS) => ((timeS - beginS) / (untilS - beginS)) * columns;
  const share = (row, column) => links.loads[row][column] / LOAD_MAX;
  return {
    title: `load of the racks' links: up is out of the rack, down into it${idle ? `; ${idle} that were idle are left out` : ""}`,
    labels: links.names,
    draw({ left, width, time, x }) {
      const cells = new Rectangles();
      const begin = Math.max(0, Math.floor(columnAt(time.fromS)));
      const end = Math.min(columns, Math.ceil(columnAt(time.toS)));
      const edge = (column) => Math.max(left, Math.min(width, x(beginS + (column / columns) * (untilS - beginS))));
      links.names.forEach((_, row) => {
        for (let column = begin, next; column < end; column = next) {
          const level = Math.ceil(share(row, column) * HEAT_STEPS);
          for (next = column + 1; next < end && Math.ceil(share(row, next) * HEAT_STEPS) === level; ) next += 1;
          cells.add(`h${level}`, edge(column), row * step, edge(next) - edge(column), step > 4 ? step - 0.6 : step);
        }
      });
      return {
        height: step * links.names.length,
        elements: cells.elements(),
        rows: links.names.map((text, row) => ({ text, y: (row + 0.5) * step })),
        describe(timeS, y) {
          const row = Math.floor(y / step), column = Math.floor(columnAt(timeS));
          if (row < 0 || row >= links.names.length || column < 0 || column >= columns) return null;
          return [links.names[row], `${Math.round(share(row, column) * 100)} % of what it could carry at ${duration(timeS)}`];
        },
      };
    },
  };
}

// The loads in a page's data: one text a link, one digit of base 36 a column.
function readLoads(links) {
  return links && { names: links.names, loads: links.loads.map((text) => Uint8Array.from(text, (digit) => parseInt(digit, 36))) };
}

function heatLegend() {
  const steps = Array.from({ length: HEAT_STEPS + 1 }, (_, level) => html("span", { class: `box h${level}` }));
  return html("span", { class: "legend" }, html("span", {}, "idle"), ...steps, html("span", {}, "full"));
}
