// A run over time: its jobs, who held which slot, attempts without a slot, circuits.

// A bar for each job.
function jobsPart(run) {
  const named = run.jobs.length <= 28;
  const step = named ? 17 : Math.max(2, Math.min(8, 360 / run.jobs.length));
  return {
    title: `${run.jobs.length} job${run.jobs.length === 1 ? "" : "s"}, from submission to end`,
    labels: named ? run.jobs.map((job) => job.name) : [],
    draw({ time, x }) {
      const bars = new Rectangles();
      run.jobs.forEach((job, row) => {
        const endS = job.end_s ?? run.until_s;
        if (endS < time.fromS || job.begin_s > time.toS) return;
        const from = x(Math.max(job.begin_s, time.fromS));
        const thick = named ? 7 : Math.max(1, step - 1);
        const style = `${jobColour(row)}${job.ok ? "" : " pale"}`;
        bars.add(style, from, row * step + (step - thick) / 2, x(Math.min(endS, time.toS)) - from, thick);
      });
      return {
        height: Math.max(step * run.jobs.length, 18),
        elements: bars.elements(),
        rows: named
          ? run.jobs.map((job, row) => ({ text: job.name, y: (row + 0.5) * step, style: `ink ${jobColour(row)}` }))
          : [],
        describe: (_, y) => describeJob(run.jobs[Math.floor(y / step)]),
        pick: (_, y) => run.jobs[Math.floor(y / step)]?.id,
      };
    },
  };
}

function describeJob(job) {
  if (!job) return null;
  const end = job.end_s === null ? (job.runs ? "still runs" : "never ended") : `ended at ${duration(job.end_s)}, took ${duration(job.end_s - job.begin_s)}`;
  return [`${job.name}${job.ok ? "" : " (failed)"}`, `submitted at ${duration(job.begin_s)}, ${end}`];
}

// The ways to colour attempts: the class of one, and the legend.
const COLOURINGS = {
  job: {
    style: (one) => `${jobColour(one.job)}${one.stage === 0 ? " pale" : ""}`,
    legend: [["ink pale", "pale: first stage (maps)"], ["ink", "strong: later stages (reduces)"]],
  },
  locality: {
    style: (one) => `place-${one.locality ?? "none"}`,
    legend: [
      ["place-node", "input on the node"],
      ["place-rack", "in its rack"],
      ["place-remote", "further away"],
      ["place-none", "reads other stages"],
    ],
  },
};
// Where maps read, and of what reads other stages, when it shuffled and when it computed.
COLOURINGS["locality and shuffle"] = {
  style: (one) => `place-${one.locality ?? "none"}`,
  phases: (one) => (one.locality === null ? "later-" : null),
  legend: [
    ["place-node", "map: input on the node"],
    ["place-rack", "in its rack"],
    ["place-remote", "further away"],
    ["later-t", "reduce: start"],
    ["later-f", "shuffle"],
    ["later-c", "compute"],
    ["later-w", "sort, write"],
  ],
};
// Phases by their letters in the data: what an attempt did while it had its slot.
const PHASES = { t: "start", r: "read", f: "shuffle", c: "compute", w: "sort, write" };
COLOURINGS.phase = {
  style: () => "phase-none",
  phases: () => "phase-",
  legend: Object.entries(PHASES).map(([letter, words]) => [`phase-${letter}`, words]),
};
const OUTCOMES = { taken: "kept, then taken", "not taken": "kept, then not taken", lost: "failed, killed or too late" };
// A line through, over or under the bar: where it begins, as a share of the bar's height.
const MARKS = { taken: 0, "not taken": 0.7, lost: 0.35 };

// Of more slots, those that were never used are left out.
const SLOTS_MAX = 600;

function slotsPart(run, colouring) {
  const slots = run.nodes.reduce((sum, node) => sum + node.slots, 0);
  const nodes = slots > SLOTS_MAX ? usedSlots(run) : run.nodes;
  const first = [];
  let rows = 0;
  for (const node of nodes) {
    first.push(rows);
    rows += node.slots;
  }
  const step = Math.max(0.3, Math.min(13, (run.slots_px ?? 380) / Math.max(1, rows)));
  const byRow = Array.from({ length: rows }, () => []);
  for (const one of run.attempts) byRow[first[one.node] + one.lane].push(one);
  const racks = rackRows(nodes, first, step);
  const left = run.left_out ? `; the ${run.attempts.length} longest of ${run.attempts.length + run.left_out} attempts` : "";
  return {
    title: `${slots} slots by rack${rows < slots ? `, the ${rows} that were used` : ""}${left}`,
    labels: racks.map((rack) => rack.text),
    draw({ left: from, width, time, x }) {
      const bars = new Rectangles(), marks = new Rectangles();
      for (const one of run.attempts) {
        if (one.end_s < time.fromS || one.begin_s > time.toS) continue;
        const begin = x(Math.max(one.begin_s, time.fromS)), end = x(Math.min(one.end_s, time.toS));
        const y = (first[one.node] + one.lane) * step, thick = step > 3 ? step - 1 : step;
        bars.add(COLOURINGS[colouring()].style(one), begin, y, end - begin, thick);
        const phases = COLOURINGS[colouring()].phases?.(one);
        if (phases) addPhases(bars, phases, one, y, thick, time, x);
        if (one.outcome in OUTCOMES) marks.add("mark", begin, y + MARKS[one.outcome] * thick, end - begin, 0.3 * thick);
      }
      const at = (timeS, y) => attemptAt(byRow[Math.floor(y / step)], timeS, (3 * (time.toS - time.fromS)) / width);
      const begins = racks.slice(1).filter((rack) => rack.begins);
      const lines = begins.map((rack) => svg("path", { class: "grid", d: `M${from} ${short(rack.top)}H${width}` }));
      return {
        height: Math.max(rows * step, 18),
        elements: [...lines, ...bars.elements(), ...marks.elements()],
        rows: racks,
        describe: (timeS, y) => describeAttempt(run, at(timeS, y)),
        pick: (timeS, y) => at(timeS, y)?.name,
      };
    },
  };
}

// `style`: of the classes of phases, what comes before their letter.
function addPhases(bars, style, one, y, thick, time, x) {
  let beginS = one.begin_s;
  for (const [letter, lengthS] of one.phases) {
    const [fromS, toS] = [Math.max(beginS, time.fromS), Math.min(beginS + lengthS, time.toS)];
    if (toS > fromS) bars.add(`${style}${letter}`, x(fromS), y, x(toS) - x(fromS), thick);
    beginS += lengthS;
  }
}

// The nodes with as many of their slots as were in use at once.
function usedSlots(run) {
  const used = run.nodes.map(() => 0);
  for (const one of run.attempts) used[one.node] = Math.max(used[one.node], one.lane + 1);
  return run.nodes.map((node, number) => ({ ...node, slots: used[number] }));
}

// Where each rack's rows begin, and where its label goes; if there is room, each node has a label.
function rackRows(nodes, first, step) {
  const racks = [];
  if (nodes.length && nodes.every((node) => node.slots * step >= TEXT_PX)) {
    return nodes.map((node, number) => {
      const top = first[number] * step, bottom = (first[number] + node.slots) * step;
      const begins = number === 0 || nodes[number - 1].rack !== node.rack;
      const style = node.lost ? "lost" : node.drained ? "drained" : "";
      return { text: node.name, about: style && `${node.name} is ${style}`, top, bottom, begins, y: (top + bottom) / 2, style };
    });
  }
  nodes.forEach((node, number) => {
    const top = first[number] * step, bottom = (first[number] + node.slots) * step;
    const last = racks.at(-1);
    if (last?.text === node.rack) last.bottom = bottom;
    else racks.push({ text: node.rack, top, bottom, begins: true });
  });
  for (const rack of racks) rack.y = (rack.top + rack.bottom) / 2;
  return racks;
}

function attemptAt(row, timeS, toleranceS) {
  return row?.find((each) => each.begin_s - toleranceS <= timeS && timeS <= each.end_s + toleranceS);
}

function describeAttempt(run, one) {
  if (!one) return null;
  const where = { node: "input on its node", rack: "input in its rack", remote: "input further away" }[one.locality];
  return [
    `${one.name} of ${run.jobs[one.job].name}`,
    `${run.nodes[one.node].name}, slot ${one.lane}${where ? `; ${where}` : ""}`,
    `${duration(one.begin_s)} to ${one.runs ? "now" : duration(one.end_s)}: ${duration(one.end_s - one.begin_s)}`,
    ...(one.why ? [`why here: ${one.why}`] : []),
    ...one.phases.map(([letter, lengthS]) => `${PHASES[letter]} ${duration(lengthS)}`),
    ...(one.outcome in OUTCOMES ? [OUTCOMES[one.outcome]] : []),
  ];
}

// How many attempts of each job wait for a slot, one job on top of the other.
function waitingPart(run) {
  return stackedPart({
    title: "attempts that have no slot yet, in the colour of their job",
    items: run.waiting,
    group: (one) => one.job,
    style: jobColour,
    name: (job) => run.jobs[job].name,
  });
}

function circuitsPart(run) {
  const { ports, of } = run.circuits;
  const step = Math.max(4, Math.min(14, 220 / ports.length));
  const at = (timeS, y) => of.find((one) => one.src === Math.floor(y / step) && one.begin_s <= timeS && timeS <= one.end_s);
  const idOf = (one) => one && `${ports[one.src]}-${ports[one.dst]}`;
  return {
    title: "circuits of each rack's outgoing port, in the colour of the rack they lead to; pale: dark, while being set up",
    labels: ports,
    draw({ time, x }) {
      const bars = new Rectangles();
      for (const one of of) {
        const y = one.src * step, thick = step - 1;
        for (const [style, beginS, endS] of [[" pale", one.begin_s, one.lit_s], ["", one.lit_s, one.end_s]]) {
          if (endS <= beginS || endS < time.fromS || beginS > time.toS) continue;
          const begin = x(Math.max(beginS, time.fromS));
          bars.add(jobColour(one.dst) + style, begin, y, x(Math.min(endS, time.toS)) - begin, thick);
        }
      }
      return {
        height: ports.length * step,
        elements: bars.elements(),
        rows: ports.map((text, row) => ({ text, y: (row + 0.5) * step })),
        pick: (timeS, y) => idOf(at(timeS, y)),
        describe(timeS, y) {
          const one = at(timeS, y);
          if (!one) return null;
          const state = timeS < one.lit_s ? "dark" : "lit";
          return [`${ports[one.src]} to ${ports[one.dst]}: ${state}`, `for ${one.coflow}`, `${duration(one.begin_s)} to ${duration(one.end_s)}`];
        },
      };
    },
  };
}
