// A run as it was at any time, from the rows of its feed (gateway/page/history.py says what they are).

const STAGE = /^(j\d+)\.([a-z]+)\d+\.\d+$/;
const LOCALITIES = { "node-local": "node", "rack-local": "rack", remote: "remote" };
const COUNTED = { succeeded: "counted", kept: "not taken" };
const LINK_COLUMNS = 240;

// The last of `list`, in the order of `at_s`, that is not later than a time.
function latest(list, atS) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle].at_s <= atS) low = middle + 1;
    else high = middle;
  }
  return list[low - 1];
}

class RunModel {
  constructor(head) {
    this.head = head;
    this.nodes = new Map();
    this.jobs = new Map();
    this.attempts = new Map();
    this.waiting = new Map();
    this.pairs = [];
    this.links = [];
    this.changedLinks = new Set();
    this.circuits = new Map();
    this.leftOut = 0;
    this.note = "";
    this.lastS = 0; // of the core's events
    this.linkNames = Object.keys(head.capacities).sort(byLink);
    this.nodeNames = null; // in order, while no other joins
  }

  take(rows) {
    for (const row of rows) {
      const [atS, kind, ...rest] = row;
      this[`_${kind.replace("-", "_")}`](atS, ...rest);
      if (kind !== "links" && kind !== "circuit") this.lastS = Math.max(this.lastS, atS);
    }
  }

  // Rows --------------------------------------------------------------------------------------
  _node(atS, name, rack, slots, lost, drained) {
    const node = this.nodes.get(name) ?? { name, rack, slots: 0, states: [] };
    node.slots = Math.max(node.slots, slots);
    if (!this.nodes.has(name)) this.nodeNames = null;
    node.states.push({ at_s: atS, takes: lost ? 0 : slots, lost, drained });
    this.nodes.set(name, node);
  }

  _job(atS, id, name, queue, user, stages, first) {
    const known = { id, name, queue, user, stages, first: new Set(first), begin_s: atS, end_s: null, statuses: [] };
    this.jobs.set(id, known);
  }

  _status(atS, id, state, progress, waiting, locality, shuffled, toShuffle, across) {
    const status = { at_s: atS, state, progress, waiting, locality, shuffled, to_shuffle: toShuffle, across };
    this.jobs.get(id)?.statuses.push(status);
  }

  _done(atS, id, ok, reason, stopped) {
    const job = this.jobs.get(id);
    if (job) Object.assign(job, { end_s: atS, ok, reason, stopped });
  }

  _launch(atS, name, node, lane, level, why, turn) {
    const before = this.waiting.get(name);
    if (before) before.end_s ??= atS;
    const [, job, stage] = STAGE.exec(name);
    this.attempts.set(name, {
      name, node, lane, job, stage, level, why, turn, begin_s: atS, start_s: null, end_s: null,
      fetching: false, fetched_s: null, phases: null, how: null, reserved_why: before?.why,
    });
    const known = this.nodes.get(node);
    if (known) known.slots = Math.max(known.slots, lane + 1);
  }

  _reserve(atS, name, node, why) {
    this.waiting.set(name, { name, node, why, job: STAGE.exec(name)[1], begin_s: atS, end_s: null });
  }

  _start(atS, name) {
    const one = this.attempts.get(name);
    if (one) one.start_s = atS;
  }

  _fetch(atS, name, fetches) {
    const one = this.attempts.get(name);
    if (!one) return;
    one.fetching = fetches;
    if (!fetches) one.fetched_s = atS;
  }

  _end(atS, name, how, phases) {
    const waiting = this.waiting.get(name), one = this.attempts.get(name);
    if (waiting) waiting.end_s ??= atS;
    if (one?.end_s === null) Object.assign(one, { end_s: atS, how, phases }); // a lost node's attempts are told again when it is back
  }

  _taken(atS, name) {
    const one = this.attempts.get(name);
    if (one) one.taken_s = atS;
  }

  _pairs(atS, of) {
    this.pairs.push({ at_s: atS, of });
  }

  // `now`: what links carry from now on that carry more or less than the head says; null for no limit.
  _links(atS, totals, now) {
    const changed = now ?? this.links.at(-1)?.now ?? {};
    for (const name of Object.keys(changed)) this.changedLinks.add(name);
    this.links.push({ at_s: atS, totals, now: changed });
  }

  _circuit(_, src, dst, coflow, beginS, litS, endS) {
    this.circuits.set(`${src} ${dst} ${beginS}`, { src, dst, coflow, begin_s: beginS, lit_s: litS, end_s: endS });
  }

  _left_out(_, jobs) {
    this.leftOut = jobs;
  }

  _note(_, words) {
    this.note = words;
  }

  // The run at a time -------------------------------------------------------------------------
  // As parts draw it; times count from `beginS`.  What had ended before it is left out.
  at(atS, beginS) {
    const from = (seconds) => seconds - beginS;
    const jobs = [...this.jobs.values()].filter((job) => job.begin_s <= atS && (job.end_s ?? Infinity) >= beginS);
    const number = new Map(jobs.map((job, n) => [job.id, n]));
    this.nodeNames ??= [...this.nodes.keys()].sort(naturally);
    const nodes = this.nodeNames.map((name) => this.nodes.get(name));
    const place = new Map(nodes.map((node, n) => [node.name, n]));
    const shown = (one) => one.begin_s <= atS && (one.end_s ?? Infinity) >= beginS && number.has(one.job);
    const attempts = [...this.attempts.values()].filter(shown).map((one) => this._attemptAt(one, atS, from, number, place));
    const waiting = [...this.waiting.values()].filter(shown);
    return {
      until_s: Math.max(from(atS), 1e-3),
      at_s: atS,
      begin_s: beginS,
      jobs: jobs.map((job) => jobAt(job, atS, from)),
      // `takes`: its slots now; `slots`: the rows that it needs
      nodes: nodes.map((node) => ({ takes: 0, ...node, ...latest(node.states, atS), slots: Math.max(node.slots, 1) })),
      attempts,
      left_out: 0,
      waiting: waiting.map((one) => ({
        name: one.name, job: number.get(one.job), begin_s: from(one.begin_s), end_s: from(Math.min(one.end_s ?? atS, atS)),
      })),
      circuits: this._circuitsAt(atS, beginS),
    };
  }

  _attemptAt(one, atS, from, number, place) {
    const job = this.jobs.get(one.job), ended = one.end_s !== null && one.end_s <= atS;
    const taken = one.taken_s !== undefined && one.taken_s <= atS;
    return {
      name: one.name,
      node: place.get(one.node),
      lane: one.lane,
      job: number.get(one.job),
      stage: job.first.has(one.stage) ? 0 : 1,
      locality: LOCALITIES[one.level] ?? null,
      begin_s: from(one.begin_s),
      end_s: from(ended ? one.end_s : atS),
      runs: !ended,
      outcome: !ended ? "runs" : taken ? "taken" : (COUNTED[one.how] ?? "lost"),
      phases: ended ? one.phases : phasesAt(one, atS, job.first.has(one.stage)),
      why: one.why,
      turn: one.turn,
      queue: job.queue,
    };
  }

  _circuitsAt(atS, beginS) {
    const of = [...this.circuits.values()].filter((one) => one.begin_s <= atS && (one.end_s ?? Infinity) >= beginS);
    const ports = [...new Set(of.flatMap((one) => [one.src, one.dst]))].sort(naturally);
    const place = new Map(ports.map((port, n) => [port, n]));
    const clip = (seconds) => Math.min(seconds ?? atS, atS) - beginS;
    return {
      ports,
      of: of.map((one) => ({
        ...one,
        src: place.get(one.src),
        dst: place.get(one.dst),
        begin_s: one.begin_s - beginS,
        lit_s: clip(one.lit_s),
        end_s: clip(one.end_s),
      })),
    };
  }

  // Loads of links in a window: as linksPart wants them.
  linksIn(fromS, toS) {
    const capacities = this.head.capacities, names = this.linkNames;
    if (this.links.length < 2 || toS <= fromS) return null;
    const step = (toS - fromS) / LINK_COLUMNS;
    const carried = new Map(names.map((name) => [name, new Float64Array(LINK_COLUMNS)]));
    const room = new Map([...this.changedLinks].filter((name) => carried.has(name)).map((name) => [name, new Float64Array(LINK_COLUMNS)]));
    const couldCarry = (rates, beginS, endS) => {
      if (endS <= fromS || beginS >= toS) return;
      for (const [name, of] of room) spread(of, (name in rates ? rates[name] : capacities[name]) ?? Infinity, beginS - fromS, endS - fromS, step);
    };
    couldCarry({}, fromS, this.links[0].at_s);
    this.links.forEach(({ at_s: atS, now }, n) => couldCarry(now, atS, this.links[n + 1]?.at_s ?? toS));
    const totals = new Map();
    let before = null;
    for (const { at_s: atS, totals: now } of this.links) {
      if (before !== null && atS > fromS && before < toS && atS > before) {
        for (const [name, total] of Object.entries(now)) {
          const of = carried.get(name);
          if (of) spread(of, (total - (totals.get(name) ?? 0)) / (atS - before), before - fromS, atS - fromS, step);
        }
      }
      for (const [name, total] of Object.entries(now)) totals.set(name, total);
      before = atS;
    }
    const loads = names.map((name) => {
      const of = carried.get(name), most = (capacities[name] ?? Math.max(...of) / step) * step, could = room.get(name);
      // A link that could carry nothing is full.
      const load = (bytes, most) => (most > 0 ? bytes / most : could ? 1 : 0);
      return Uint8Array.from(of, (bytes, n) => Math.round(LOAD_MAX * Math.min(1, load(bytes, could && could[n] < Infinity ? could[n] : most))));
    });
    return { names, loads };
  }

  // Bytes that were fetched from rack to rack in a window.
  pairsIn(fromS, toS) {
    const found = new Map();
    for (const { at_s: atS, of } of this.pairs) {
      if (atS < fromS || atS > toS) continue;
      for (const [src, dst, bytes] of of) found.set(`${src} ${dst}`, (found.get(`${src} ${dst}`) ?? 0) + bytes);
    }
    return found;
  }

  get isIdle() {
    return [...this.jobs.values()].every((job) => job.end_s !== null);
  }

  // When what is under way, or was last, began: the first job since nothing ran.
  busySince(atS) {
    let beginS = null, endS = -Infinity;
    for (const job of this.jobs.values()) {
      if (job.begin_s > atS) break;
      if (job.begin_s > endS + 5 || beginS === null) beginS = job.begin_s;
      endS = Math.max(endS, job.end_s ?? Infinity);
    }
    return beginS ?? 0;
  }
}

// Add a rate over a stretch of time to columns of `step` seconds.
function spread(columns, rate, fromS, toS, step) {
  const first = Math.max(0, Math.floor(fromS / step)), last = Math.min(columns.length - 1, Math.floor(toS / step));
  for (let n = first; n <= last; n += 1) {
    columns[n] += rate * Math.max(0, Math.min(toS, (n + 1) * step) - Math.max(fromS, n * step));
  }
}

function jobAt(job, atS, from) {
  const ended = job.end_s !== null && job.end_s <= atS;
  return {
    id: job.id,
    name: job.name,
    queue: job.queue,
    user: job.user,
    stages: job.stages,
    begin_s: from(job.begin_s),
    end_s: ended ? from(job.end_s) : null,
    runs: !ended,
    ok: ended ? job.ok : true,
    reason: ended ? job.reason : "",
    stopped: ended && job.stopped,
    status: latest(job.statuses, atS) ?? null,
  };
}

// What an attempt that runs has done so far; when its fetches ended is known to half a second.
function phasesAt(one, atS, isFirst) {
  const startS = Math.min(one.start_s ?? atS, atS), found = [];
  if (startS > one.begin_s) found.push(["t", startS - one.begin_s]);
  if (isFirst) found.push(["c", atS - startS]);
  else {
    const fetchedS = one.fetching || one.fetched_s === null ? atS : Math.min(atS, Math.max(one.fetched_s, startS));
    found.push(["f", fetchedS - startS], ["c", atS - fetchedS]);
  }
  return found.filter(([, lengthS]) => lengthS > 1e-6);
}

const naturally = new Intl.Collator("en", { numeric: true }).compare; // r2 before r10

// Links out of racks, then those into them, then what else there is.
function byLink(one, other) {
  const kind = (name) => ({ up: 0, down: 1 })[name.split(".").pop()] ?? 2;
  const optical = (name) => (name.includes(".ocs.") ? 1 : 0);
  return optical(one) - optical(other) || kind(one) - kind(other) || naturally(one, other);
}

// Bytes as people read them: decimal, three digits.
function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  for (; bytes >= 999.5 && unit < units.length - 1; unit += 1) bytes /= 1000;
  return `${unit === 0 ? Math.round(bytes) : Number(bytes.toPrecision(3))} ${units[unit]}`;
}
