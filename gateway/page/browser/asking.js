// Requests of the live page to what serves it: with the token of "#token=" in its address, if it has one.

const FEED_AGAIN_MS = 1000;
const KEPT_AS = "railyard-token";

// Kept for this tab, and taken out of the address, which people copy.  Null: none is needed, as on the machine itself.
const token = (() => {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  try {
    if (given === null) return sessionStorage.getItem(KEPT_AS);
    sessionStorage.setItem(KEPT_AS, given);
    history.replaceState(null, "", location.pathname);
  } catch {
    // a browser that keeps nothing: the token stays in the address
  }
  return given;
})();
addEventListener("hashchange", () => location.reload());

function ask(url, options = {}) {
  const shown = token === null ? {} : { Authorization: `Bearer ${token}` };
  return fetch(url, { ...options, headers: { ...options.headers, ...shown } });
}

// Calls `on[event](value)` for each server-sent event, and comes back whenever the feed breaks off, while `goesOn()`.
// `lost(status)` is told of it: the status of a refusal, or 0.  An EventSource would do, but cannot show a token.
async function follow(url, on, goesOn, lost) {
  while (goesOn()) {
    const status = await readFeed(url, on);
    if (!goesOn()) return;
    lost(status);
    if (status === 401) return;
    await new Promise((again) => setTimeout(again, FEED_AGAIN_MS));
  }
}

async function readFeed(url, on) {
  const answer = await ask(url).catch(() => null);
  if (!answer?.ok) return answer?.status ?? 0;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  for (;;) {
    const { value, done } = await reader.read().catch(() => ({ done: true }));
    if (done) return 0;
    const messages = (left + value).split("\n\n");
    left = messages.pop();
    for (const message of messages) {
      const [event, data] = message.split("\n", 2);
      if (!event.startsWith("event: ")) continue;
      try {
        on[event.slice(7)](JSON.parse(data.slice(6)));
      } catch (error) {
        reportError(error); // the next may be sound
      }
    }
  }
}
