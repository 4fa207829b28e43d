// What all parts draw with: SVG elements, paths of many rectangles, ticks, words for times.
// Parts are plain functions: data in, SVG out.  Colours are classes of the style sheet.

function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function html(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Rectangles by class, each class one path: thousands of them are few elements.
class Rectangles {
  constructor() {
    this.paths = new Map();
  }

  add(style, x, y, width, height) {
    const path = this.paths.get(style) ?? [];
    if (path.length === 0) this.paths.set(style, path);
    path.push(`M${short(x)} ${short(y)}h${short(Math.max(width, 0.4))}v${short(height)}H${short(x)}z`);
  }

  elements() {
    return [...this.paths].map(([style, path]) => svg("path", { class: style, d: path.join("") }));
  }
}

function short(number) {
  return Math.round(number * 100) / 100;
}

// Round values from `from` to `to`, about `count` of them.
function ticks(from, to, count) {
  const rough = (to - from) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  const found = [];
  for (let n = Math.ceil(from / step); n * step <= to + step * 1e-9; n += 1) found.push(n * step);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return found.map((value) => ({ value, text: value.toFixed(digits) }));
}

// As format_duration in cluster/units.py.
function duration(seconds) {
  const two = (number) => String(number).padStart(2, "0");
  if (seconds >= 7200) {
    const minutes = Math.round(seconds / 60);
    return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  }
  if (seconds >= 120) {
    const whole = Math.round(seconds);
    return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  }
  return seconds >= 1 || seconds === 0 ? `${seconds.toFixed(2)} s` : `${(seconds * 1000).toFixed(1)} ms`;
}

// The class of the n-th job's colour; there are eight, neighbours in the list always differ.
function jobColour(number) {
  return `j${number % 8}`;
}

// Text cut to a width: letters are about 0.56 of their height wide.
function cut(text, width, size) {
  const letters = Math.floor(width / (size * 0.56));
  return text.length <= letters ? text : `${text.slice(0, Math.max(1, letters - 1))}…`;
}

// Call `draw` now, and when the width of an element has changed.
function redrawWith(element, draw) {
  let width = -1;
  new ResizeObserver(() => {
    if (element.clientWidth === width) return;
    width = element.clientWidth;
    requestAnimationFrame(draw);
  }).observe(element);
}
