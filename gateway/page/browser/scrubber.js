// The time that is shown of a finished run: a slider, and a button that plays the run from there.

const SPEEDS = [0.5, 1, 2, 5, 10, 30, 60];

// `onTime(seconds)` is called with each new time; from `fromS` to `toS`.
function makeScrubber(host, fromS, toS, onTime) {
  const slider = html("input", { type: "range", min: 0, max: 1000, value: 1000, step: "any", "aria-label": "time" });
  const play = html("button", { type: "button", "aria-label": "play" }, "▶");
  const speed = html("select", { "aria-label": "speed" });
  for (const factor of SPEEDS) speed.append(html("option", { value: factor }, `${factor} ×`));
  const lengthS = Math.max(toS - fromS, 1e-6);
  speed.value = String(SPEEDS.find((factor) => lengthS / factor <= 20) ?? SPEEDS.at(-1));
  const label = html("output");
  host.append(play, slider, label, speed);
  const timeS = () => fromS + (Number(slider.value) / 1000) * lengthS;
  let before = null;

  const tell = () => {
    label.textContent = `${duration(timeS() - fromS)} of ${duration(lengthS)}`;
    slider.setAttribute("aria-valuetext", label.textContent);
    onTime(timeS());
  };
  const stop = () => {
    before = null;
    play.textContent = "▶";
    play.setAttribute("aria-label", "play");
  };
  const step = (now) => {
    if (before === null) return;
    const nextS = timeS() + ((now - before) / 1000) * Number(speed.value);
    before = now;
    slider.value = (1000 * (nextS - fromS)) / lengthS;
    tell();
    if (nextS >= toS) stop();
    else requestAnimationFrame(step);
  };
  slider.addEventListener("input", tell);
  play.addEventListener("click", () => {
    if (before !== null) return stop();
    if (timeS() >= toS - 1e-6) slider.value = 0;
    before = performance.now();
    play.textContent = "❚❚";
    play.setAttribute("aria-label", "pause");
    return requestAnimationFrame(step);
  });
  tell();
}
