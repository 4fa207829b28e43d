// Distributions: the share of jobs that had ended after a time, a curve for each scheduler.

const LOG_FROM = 30; // from this ratio of the longest to the shortest time on, the axis is logarithmic

// `data`: title, and curves of {label, style, dashed, times_s in order}.
function makeCurves(host, data) {
  const curves = data.curves.filter((curve) => curve.times_s.length);
  const caption = html("figcaption", {}, curves.length ? data.title : `${data.title}: none`);
  const picture = svg("svg", { role: "img", "aria-label": data.title });
  const legend = html("ul", { class: "curves" }, ...byMean(curves).map(legendRow));
  host.append(html("figure", { class: "panel" }, caption, ...(curves.length ? [picture, legend] : [])));
  if (!curves.length) return () => {};
  const longest = Math.max(...curves.map((curve) => curve.times_s.at(-1))) * 1.02 || 1;
  const shortest = Math.min(...curves.map((curve) => curve.times_s[0]));
  const logarithmic = shortest > 0 && longest / shortest > LOG_FROM;
  const height = 200, left = 44;
  const share = (seconds) =>
    logarithmic ? Math.log(seconds / shortest) / Math.log(longest / shortest) : seconds / longest;
  const inverse = (part) => (logarithmic ? shortest * (longest / shortest) ** part : longest * part);
  let width = 0;
  picture.addEventListener("pointermove", (event) => {
    const part = (event.clientX - picture.getBoundingClientRect().left - left) / (width - left - 8);
    if (part < 0 || part > 1) return tip.hide();
    const atS = inverse(part);
    const done = (curve) => curve.times_s.filter((s) => s <= atS).length / curve.times_s.length;
    const rows = curves.map((curve) => `${Math.round(100 * done(curve))} % ${curve.label}`);
    return tip.show(event, [`after ${duration(atS)}`, ...rows]);
  });
  picture.addEventListener("pointerleave", () => tip.hide());

  return () => {
    width = picture.parentElement.clientWidth;
    const x = (seconds) => left + share(seconds) * (width - left - 8);
    const y = (part) => 6 + (1 - part) * (height - 6);
    picture.setAttribute("viewBox", `0 0 ${width} ${height + AXIS_PX}`);
    picture.setAttribute("height", height + AXIS_PX);
    const across = [0, 0.25, 0.5, 0.75, 1].flatMap((part) => [
      svg("path", { class: "grid", d: `M${left} ${short(y(part))}H${width}` }),
      words(left - 6, y(part) + 4, "row", `${part * 100} %`),
    ]);
    const marks = logarithmic ? powers(shortest, longest) : ticks(0, longest, (width - left) / 70);
    const down = marks.flatMap(({ value, text }) => [
      svg("path", { class: "grid", d: `M${short(x(value))} 6V${height}` }),
      words(x(value), height + 14, "tick", `${text} s`, x(value) > width - 24 ? "end" : "middle"),
    ]);
    picture.replaceChildren(...across, ...down, ...curves.map((curve) => line(curve, x, y, width)));
  };
}

function line(curve, x, y, width) {
  const count = curve.times_s.length;
  const steps = curve.times_s.map((seconds, number) => `H${short(x(seconds))}V${short(y((number + 1) / count))}`);
  const d = `M${short(x(curve.times_s[0]))} ${short(y(0))}${steps.join("")}H${width}`;
  return svg("path", { class: `curve ${curve.style}${curve.dashed ? " dashed" : ""}`, d });
}

function words(x, y, style, text, anchor = "end") {
  const made = svg("text", { x: short(x), y: short(y), class: style, "text-anchor": anchor });
  made.textContent = text;
  return made;
}

// Powers of ten between two times.
function powers(from, to) {
  const found = [];
  for (let power = Math.ceil(Math.log10(from)); 10 ** power <= to; power += 1) {
    found.push({ value: 10 ** power, text: String(Number((10 ** power).toPrecision(1))) });
  }
  return found;
}

function byMean(curves) {
  return [...curves].sort((one, other) => mean(one.times_s) - mean(other.times_s));
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function legendRow(curve) {
  const sample = svg("svg", { width: 22, height: 8, "aria-hidden": "true" });
  sample.append(svg("path", { class: `curve ${curve.style}${curve.dashed ? " dashed" : ""}`, d: "M0 4H22" }));
  return html("li", {}, sample, ` ${curve.label}: mean ${duration(mean(curve.times_s))}`);
}
