// Decisions with their reasons, and what is known of one attempt, with what it has written.

const DECISIONS_SHOWN = 60;

// `choose(attempt's name)`.  Returns a function that shows the latest decisions, of one job or of all.
function makeDecisions(host, choose) {
  const title = html("p", { class: "note" });
  const list = html("ol", { class: "decisions" });
  host.append(title, list);
  let before = "";
  list.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) choose(button.dataset.attempt);
  });

  return (run, chosenJob) => {
    const job = run.jobs.findIndex((one) => one.id === chosenJob);
    const all = run.attempts.filter((one) => job < 0 || one.job === job);
    const shown = all.sort((one, other) => other.begin_s - one.begin_s).slice(0, DECISIONS_SHOWN);
    const key = `${chosenJob} ${all.length} ${shown[0]?.name}`;
    if (key === before) return;
    before = key;
    title.textContent = `${all.length} attempts${job < 0 ? "" : ` of ${run.jobs[job].name}`} got slots${all.length > shown.length ? `; the latest ${shown.length}` : ""}`;
    list.replaceChildren(...shown.map((one) => decision(one, run)));
  };
}

function decision(one, run) {
  const name = html("button", { type: "button", class: "link", "data-attempt": one.name }, one.name);
  const place = html("span", { class: `dot box place-${one.locality ?? "none"}` });
  const why = one.why || "no reason given";
  const turn = one.turn ? html("small", {}, `whose turn: ${one.turn}`) : "";
  const when = html("span", { class: "when" }, duration(one.begin_s));
  return html("li", {}, when, html("span", {}, place, name, ` on ${run.nodes[one.node]?.name}: ${why}`, turn));
}

// Returns {show(run, attempt's name or null)}; what an attempt has written is fetched.  `close()` is called to be shown none.
function makeDetails(host, close) {
  const facts = html("dl", { class: "facts" }), log = html("pre", { tabindex: "0", "aria-label": "what it has written" });
  const title = html("h2"), leave = html("button", { type: "button", class: "close", "aria-label": "close" }, "×");
  const choice = html("select", { "aria-label": "which of its outputs" });
  for (const file of ["stderr", "stdout"]) choice.append(html("option", { value: file }, file));
  const again = html("button", { type: "button" }, "read again");
  const tools = html("div", { class: "tools" }, choice, again);
  host.append(leave, title, facts, tools, log);
  leave.addEventListener("click", close);
  let shown = null;
  const fetchLog = async () => {
    const name = shown;
    if (!name) return;
    const answer = await ask(`page/log?attempt=${encodeURIComponent(name)}&file=${choice.value}`).catch(() => null);
    const text = answer?.status === 200 ? await answer.text() : null;
    if (name !== shown) return;
    log.textContent = text === null ? `${name} has left no ${choice.value} here.` : text || `${choice.value} is empty.`;
    log.scrollTop = log.scrollHeight;
  };
  choice.addEventListener("change", fetchLog);
  again.addEventListener("click", fetchLog);

  return {
    show(run, name) {
      const one = run.attempts.find((each) => each.name === name);
      host.hidden = !one;
      title.textContent = one?.name ?? "";
      if (one) facts.replaceChildren(...attemptFacts(one, run));
      if (shown !== (one?.name ?? null)) {
        shown = one?.name ?? null;
        log.textContent = "";
        fetchLog();
      }
    },
  };
}

function attemptFacts(one, run) {
  const where = { node: "on its node", rack: "in its rack", remote: "further away" }[one.locality];
  const ends = { counted: "succeeded", lost: "failed, killed or too late", runs: "runs", taken: "kept, then taken", "not taken": "kept" };
  const rows = [
    ["job", run.jobs[one.job].name],
    ["where", `${run.nodes[one.node]?.name}, slot ${one.lane}`],
    ["state", ends[one.outcome]],
    ["time", `${duration(one.begin_s)} + ${duration(one.end_s - one.begin_s)}`],
    ...(where ? [["input", where]] : []),
    ["why here", one.why || "no reason given"],
    ...(one.turn ? [["whose turn", one.turn]] : []),
    ...one.phases.map(([letter, lengthS]) => [PHASES[letter], duration(lengthS)]),
  ];
  return rows.map(([name, words]) => html("div", {}, html("dt", {}, name), html("dd", {}, words)));
}
