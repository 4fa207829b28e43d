// The live page: takes the feed, and shows the run as it is now, or as it was at a time.

const DRAWN_EVERY_MS = 500; // at most so often, and never for longer than half of the time
const SLOTS_PX = 480;
const SILENT_MS = 5000; // of a gateway that says the time four times a second

const byId = (id) => document.getElementById(id);

// Draws the panels over time, one below the other; returns a function that draws a run.
// `picked` is called with the id of what was clicked.
function makeOver(host, tools, picked) {
  const time = new TimeWindow(1);
  const choice = html("select", { "aria-label": "colour of slots" });
  for (const name of Object.keys(COLOURINGS)) choice.append(html("option", { value: name }, `colour: ${name}`));
  choice.value = "locality and shuffle";
  const legend = html("span", { class: "legend" });
  tools.append(zoomButtons(time), choice, legend);
  const panels = new Map();
  const leftOf = (width) => Math.min(width > 800 ? 92 : 58, width * 0.2);
  let run = null, model = null;
  const marks = Object.entries(OUTCOMES).map(([how, words]) => [how, `ink mark ${how.replace(" ", "-")}`, words]);
  const boxes = () => {
    const outcomes = new Set(run?.attempts.map((one) => one.outcome));
    const shown = [...COLOURINGS[choice.value].legend, ...marks.filter(([how]) => outcomes.has(how)).map(([, ...rest]) => rest)];
    legend.replaceChildren(...shown.map(([style, words]) => html("span", {}, html("span", { class: `box ${style}` }), ` ${words}`)));
  };
  const draw = () => {
    if (!run) return;
    const parts = {
      jobs: run.jobs.length ? jobsPart(run) : null,
      slots: slotsPart(run, () => choice.value),
      use: usePart(run),
      waiting: run.waiting.length ? waitingPart(run) : null,
      circuits: run.circuits.of.length ? circuitsPart(run) : null,
      links: linksIn(time, model, run),
    };
    for (const [name, part] of Object.entries(parts)) {
      if (part && !panels.has(name)) {
        const at = html("div");
        panels.set(name, { at, draw: makePanel(at, part, time, leftOf, picked) });
        if (name === "links") at.append(heatLegend());
        host.append(...[...Object.keys(parts)].map((key) => panels.get(key)?.at).filter(Boolean));
      }
      const panel = panels.get(name);
      if (panel) panel.at.hidden = !part;
      if (part) panel.draw(part);
    }
  };
  choice.addEventListener("change", () => {
    boxes();
    draw();
  });
  time.onChange(draw);
  redrawWith(host, draw);
  return {
    time,
    show(newRun, newModel) {
      run = { ...newRun, slots_px: SLOTS_PX };
      model = newModel;
      time.extend(run.until_s);
      boxes();
      draw();
    },
  };
}

// The links' loads in the time that is shown, however short that is.
function linksIn(time, model, run) {
  const [fromS, toS] = [time.fromS, Math.min(time.toS, run.until_s)];
  const links = model.linksIn(run.begin_s + fromS, run.begin_s + toS);
  return links && linksPart(links, toS, fromS);
}

// How many slots each queue holds; with one queue, each job.
function usePart(run) {
  const queues = [...new Set(run.jobs.map((job) => job.queue))].sort();
  const byQueue = queues.length > 1;
  const slots = run.nodes.reduce((sum, node) => sum + node.takes, 0);
  return stackedPart({
    title: `slots in use, in the colour of their ${byQueue ? "queue" : "job"}, of ${slots}`,
    items: run.attempts,
    group: (one) => (byQueue ? queues.indexOf(one.queue) : one.job),
    style: jobColour,
    name: (group) => (byQueue ? `queue ${queues[group]}` : run.jobs[group].name),
    most: slots,
  });
}

function showFacts(host, model, run) {
  const running = run.jobs.filter((job) => job.runs).length, used = run.attempts.filter((one) => one.runs).length;
  const slots = run.nodes.reduce((sum, node) => sum + node.takes, 0);
  const count = (nodes, state) => (nodes.length ? `, ${nodes.length} ${nodes.length === 1 ? "node" : "nodes"} ${state}` : "");
  const lost = count(run.nodes.filter((node) => node.lost), "lost");
  const drained = count(run.nodes.filter((node) => node.drained && !node.lost), "drained");
  const bar = html("span", { class: "bar" }, html("span", { class: "done" }));
  bar.firstChild.style.width = `${slots ? Math.min(100, (100 * used) / slots) : 0}%`;
  const facts = [
    ["scheduler", `${model.head.scheduler}, flows: ${model.head.flow_scheduler}`],
    ["cluster", `${model.head.topology}${lost}${drained}`],
    ["slots", bar, `${used} of ${slots}`],
    ["jobs", `${running} running, ${run.jobs.length - running} ended`],
  ];
  host.replaceChildren(...facts.map(([name, ...words]) => html("div", {}, html("dt", {}, name), html("dd", {}, ...words))));
}

function startLive() {
  let model = null, chosenJob = null, chosenAttempt = null, atS = 0, offsetMs = null, due = null, tookMs = 0, isReady = false;
  const state = byId("state");
  const say = (words, style) => {
    state.textContent = words;
    state.className = `note ${style}`;
  };
  const chooseAttempt = (name) => {
    chosenAttempt = name;
    draw();
  };
  const chooseJob = (id) => {
    chosenJob = chosenJob === id ? null : id;
    draw();
  };
  const choose = (id) => {
    if (STAGE.test(id)) chooseAttempt(id);
    else if (model.jobs.has(id)) chooseJob(id);
  };
  const over = makeOver(byId("over"), byId("tools"), choose);
  const matrix = makeMatrix(byId("matrix"));
  const details = makeDetails(byId("details"), () => chooseAttempt(null));
  const decisions = makeDecisions(byId("decisions"), chooseAttempt);
  let jobs = null, blocks = null, changes = "", heardMs = null;

  const beginS = () => (model.head.live ? model.busySince(atS) : firstOf(model));
  const draw = () => {
    due = null;
    if (!model || !isReady) return;
    const begunMs = performance.now();
    if (model.head.live) atS = model.isIdle ? model.lastS : Math.max(model.lastS, ((offsetMs ?? 0) + begunMs) / 1000);
    const run = model.at(atS, beginS());
    over.show(run, model);
    showFacts(byId("facts"), model, run);
    jobs(run, chosenJob, model.leftOut);
    const { fromS, toS } = over.time;
    matrix(model.head.racks, model.pairsIn(run.begin_s + fromS, run.begin_s + toS));
    decisions(run, chosenJob);
    details.show(run, chosenAttempt);
    const known = run.jobs.map((job) => `${job.id} ${job.runs}`).join();
    if (known !== changes) blocks?.(); // jobs begin and end with files
    changes = known;
    byId("note").hidden = !model.note;
    byId("note").textContent = model.note;
    tookMs = performance.now() - begunMs;
    window.railyard = { drawn: (window.railyard?.drawn ?? 0) + 1, took_ms: tookMs, at_s: atS };
  };
  const drawSoon = () => (due ??= setTimeout(() => requestAnimationFrame(draw), Math.max(DRAWN_EVERY_MS, 2 * tookMs)));
  over.time.onChange(drawSoon);

  const begin = (head) => {
    model = new RunModel(head);
    isReady = false;
    offsetMs = null;
    byId("title").textContent = head.title ?? "Railyard";
    document.title = head.title ? `Railyard: ${head.title}` : "Railyard";
    if (jobs === null) {
      jobs = makeJobTable(byId("jobs"), { choose: chooseJob, kill: head.live ? (id) => killJob(id, head, say) : null });
      byId("store").hidden = !head.live;
      if (head.live) blocks = makeBlocks(byId("blocks"), head.racks);
    }
  };
  const ready = () => {
    isReady = true;
    if (model.head.live) return draw();
    const [fromS, toS] = [firstOf(model), model.lastS];
    byId("scrubber").hidden = false;
    return makeScrubber(byId("scrubber"), fromS, toS, (timeS) => {
      atS = timeS;
      draw();
    });
  };

  const on = {
    whole: begin,
    rows(rows) {
      model.take(rows);
      if (isReady) drawSoon();
    },
    now(nowS) {
      heardMs = performance.now();
      offsetMs = 1000 * nowS - heardMs;
      say("live", "on");
      drawSoon();
    },
    trouble(words) {
      byId("trouble").replaceChildren(...words.map((line) => html("li", {}, line)));
      byId("trouble").hidden = !words.length;
    },
    ready() {
      if (model.head.live) say("live", "on");
      else say(model.head.clock === "virtual" ? "simulated" : "emulated", "recorded");
      ready();
    },
  };
  const goesOn = () => !isReady || model.head.live;
  const lost = (status) => say(status === 401 ? "this address needs its token: open the page by the link that railyard status prints" : "the cluster does not answer; trying again", "off");
  setInterval(() => {
    if (heardMs === null || performance.now() - heardMs < SILENT_MS) return;
    heardMs = null;
    say("the gateway is silent; waiting for it", "off");
  }, 1000);
  follow("page/feed", on, goesOn, lost);
}

const firstOf = (model) => Math.min(...[...model.jobs.values()].map((job) => job.begin_s), model.lastS);

async function killJob(id, head, say) {
  const app = `application_${head.begun_ms}_${id.slice(1).padStart(4, "0")}`;
  const body = JSON.stringify({ state: "KILLED" });
  const headers = { "Content-Type": "application/json" };
  const answer = await ask(`ws/v1/cluster/apps/${app}/state`, { method: "PUT", headers, body }).catch(() => null);
  if (!answer?.ok) say(`${id} could not be killed`, "off");
}

startLive();
