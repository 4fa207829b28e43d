// The table of jobs.  Rows stay as they are while their words change, so that they can be clicked.

const JOBS_SHOWN = 200;

// `actions`: choose(job id), kill(job id) or null.  Returns a function that shows jobs.
function makeJobTable(host, actions) {
  const titles = ["job", "state", "progress", "time", "maps read from", "shuffled", "across racks", "why", ""];
  const body = html("tbody");
  const head = html("tr", {}, ...titles.map((title) => html("th", { scope: "col" }, title)));
  const note = html("p", { class: "note" });
  const table = html("table", { class: "jobs" }, html("thead", {}, head), body);
  host.append(html("div", { class: "wide" }, table), note);
  const rows = new Map();

  return (run, chosen, leftOut) => {
    const shown = run.jobs.map((job, number) => ({ ...job, number })).reverse().slice(0, JOBS_SHOWN);
    const wanted = new Set(shown.map((job) => job.id));
    for (const [id, row] of rows) {
      if (wanted.has(id)) continue;
      row.element.remove();
      rows.delete(id);
    }
    shown.forEach((job, place) => {
      if (!rows.has(job.id)) rows.set(job.id, jobRow(job.id, actions));
      const row = rows.get(job.id);
      if (body.children[place] !== row.element) body.insertBefore(row.element, body.children[place] ?? null);
      row.show(job, run, job.id === chosen);
    });
    const hidden = run.jobs.length - shown.length + leftOut;
    note.textContent = !run.jobs.length ? "No job yet: railyard run terasort starts one." : hidden ? `${hidden} earlier jobs are not shown.` : "";
  };
}

function jobRow(id, actions) {
  const cell = (...inner) => html("td", {}, ...inner);
  const dot = html("span", { class: "dot" }), name = html("button", { type: "button", class: "link" });
  const small = html("small"), state = cell(), time = cell(), shuffled = cell(), across = cell();
  const done = html("span", { class: "done" }), percent = html("span");
  const parts = ["node", "rack", "remote"].map((place) => html("span", { class: `place-${place}` }));
  const bar = html("span", { class: "parts" }, ...parts), counts = html("span");
  const why = html("td", { class: "waits" }), last = cell();
  name.addEventListener("click", () => actions.choose(id));
  const kill = actions.kill ? killButton(() => actions.kill(id)) : null;
  if (kill) last.append(kill.element);
  const element = html("tr", {}, cell(dot, name, small), state,
    cell(html("span", { class: "bar" }, done), percent), time, cell(bar, counts), shuffled, across, why, last); // prettier-ignore
  const say = (at, words) => {
    if (at.textContent !== words) at.textContent = words;
  };
  return {
    element,
    show(job, run, isChosen) {
      const status = job.status ?? { progress: 0, locality: [0, 0, 0], shuffled: 0, to_shuffle: 0, across: 0, waiting: "" };
      element.classList.toggle("chosen", isChosen);
      dot.className = `dot box ${jobColour(job.number)}`;
      say(name, job.name);
      say(small, `${job.id}, ${job.queue}, ${job.user}`);
      const word = job.runs ? "runs" : job.ok ? "succeeded" : job.stopped ? "killed" : "failed";
      say(state, word);
      state.className = job.runs ? "" : job.ok ? "good" : "bad";
      done.style.width = `${100 * (job.ok && !job.runs ? 1 : status.progress)}%`;
      say(percent, `${Math.round(100 * (job.ok && !job.runs ? 1 : status.progress))} %`);
      say(time, duration((job.end_s ?? run.until_s) - job.begin_s));
      const all = status.locality.reduce((sum, n) => sum + n, 0);
      parts.forEach((part, n) => (part.style.width = `${all ? (100 * status.locality[n]) / all : 0}%`));
      bar.title = "maps whose input was on their node, in its rack, further away";
      say(counts, all ? status.locality.join(" / ") : "-");
      say(shuffled, status.to_shuffle ? `${size(status.shuffled)} of ${size(Math.max(status.to_shuffle, status.shuffled))}` : "-");
      say(across, status.shuffled ? `${Math.round((100 * status.across) / status.shuffled)} %` : "-");
      say(why, job.runs ? status.waiting : job.reason);
      if (kill) kill.element.hidden = !job.runs;
    },
  };
}

// A button that asks once more before it does anything.
function killButton(kill) {
  const element = html("button", { type: "button", class: "kill" }, "kill");
  let timer = null;
  const calm = () => {
    timer = null;
    element.textContent = "kill";
    element.classList.remove("sure");
  };
  element.addEventListener("click", () => {
    if (timer === null) {
      element.textContent = "really kill?";
      element.classList.add("sure");
      timer = setTimeout(calm, 4000);
      return;
    }
    clearTimeout(timer);
    calm();
    kill();
  });
  return { element };
}
