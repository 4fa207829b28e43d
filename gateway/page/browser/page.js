// Draws the pictures of a page from the data beside them, and again whenever the room for them changes.

// Data comes in columns, a list for each key: it is smaller so.
function fromColumns(columns) {
  const keys = Object.keys(columns);
  return (columns[keys[0]] ?? []).map((_, row) =>
    Object.fromEntries(keys.map((key) => [key, columns[key][row]])),
  );
}

function readRun(data) {
  const nodes = fromColumns(data.nodes);
  return {
    ...data,
    nodes,
    links: readLoads(data.links),
    attempts: fromColumns(data.attempts),
    waiting: fromColumns(data.waiting),
    circuits: { ports: data.circuits.ports, of: fromColumns(data.circuits.of) },
  };
}

// Draw a run below `host`; `time` may be shared with others.
function showRun(host, data, time) {
  const run = readRun(data);
  let colouring = "job";
  const parts = [jobsPart(run)];
  if (run.attempts.length) parts.push(slotsPart(run, () => colouring));
  if (run.waiting.length) parts.push(waitingPart(run));
  if (run.circuits.of.length) parts.push(circuitsPart(run));
  const links = run.links && linksPart(run.links, run.makespan_s);
  if (links) parts.push(links);
  const longest = Math.max(...parts.flatMap((part) => part.labels.map((label) => label.length)), 2);
  const leftOf = (width) => Math.min(longest * TEXT_PX * 0.6 + 10, width * 0.24);
  const legend = html("span", { class: "legend" });
  const choice = html("select", { "aria-label": "colour of slots" });
  for (const name of Object.keys(COLOURINGS)) choice.append(html("option", { value: name }, `colour: ${name}`));
  host.append(html("div", { class: "tools" }, zoomButtons(time), run.attempts.length ? choice : "", legend));
  const picked = run.why && makeWhy(run.why);
  const draws = parts.map((part) => makePanel(host, part, time, leftOf, picked)).map((draw) => () => draw());
  if (links) host.append(heatLegend());
  const draw = () => draws.forEach((each) => each());
  const chosen = () => {
    colouring = choice.value;
    const outcomes = new Set(run.attempts.map((one) => one.outcome).filter((how) => how in OUTCOMES));
    const marks = [...outcomes].map((how) => [`ink mark ${how.replace(" ", "-")}`, OUTCOMES[how]]);
    legend.replaceChildren(
      ...(run.attempts.length ? [...COLOURINGS[colouring].legend, ...marks] : []).map(([style, words]) =>
        html("span", {}, html("span", { class: `box ${style}` }), ` ${words}`),
      ),
    );
  };
  choice.addEventListener("change", () => {
    chosen();
    draw();
  });
  chosen();
  time.onChange(draw);
  redrawWith(host, draw);
}

function dataOf(host) {
  return JSON.parse(host.querySelector("script[type='application/json']").textContent);
}

function showPage() {
  const runs = [...document.querySelectorAll("[data-run]")].map((host) => [host, dataOf(host)]);
  for (const host of document.querySelectorAll("[data-curves]")) {
    const draws = dataOf(host).map((panel) => makeCurves(host, panel));
    redrawWith(host, () => draws.forEach((draw) => draw()));
  }
  const time = new TimeWindow(Math.max(...runs.map(([, data]) => data.until_s), 1e-6));
  for (const [host, data] of runs) showRun(host, data, time);
}

showPage();
