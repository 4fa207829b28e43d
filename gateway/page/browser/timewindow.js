// The stretch of time that panels show: all of them share one, so that they zoom together.

class TimeWindow {
  constructor(untilS) {
    this.untilS = untilS;
    this.fromS = 0;
    this.toS = untilS;
    this.listeners = [];
  }

  // There is more time to show: who sees all of it, or its end, goes along.
  extend(untilS) {
    const [wasAll, atEnd, width] = [this.isAll, this.toS >= this.untilS, this.toS - this.fromS];
    this.untilS = untilS;
    if (wasAll) [this.fromS, this.toS] = [0, untilS];
    else if (atEnd) [this.fromS, this.toS] = [Math.max(0, untilS - width), untilS];
    else [this.fromS, this.toS] = [Math.min(this.fromS, untilS), Math.min(this.toS, untilS)];
  }

  onChange(listener) {
    this.listeners.push(listener);
  }

  get isAll() {
    return this.fromS <= 0 && this.toS >= this.untilS;
  }

  show(fromS, toS) {
    const width = Math.min(this.untilS, Math.max(toS - fromS, this.untilS / 1e5));
    this.fromS = Math.max(0, Math.min(fromS, this.untilS - width));
    this.toS = this.fromS + width;
    this.listeners.forEach((listener) => listener());
  }

  showAll() {
    this.show(0, this.untilS);
  }

  // Zoom by a factor, below 1 to see less; the time `aboutS` stays where it is.
  zoom(factor, aboutS = (this.fromS + this.toS) / 2) {
    this.show(aboutS - (aboutS - this.fromS) * factor, aboutS + (this.toS - aboutS) * factor);
  }

  move(share) {
    const byS = (this.toS - this.fromS) * share;
    this.show(this.fromS + byS, this.toS + byS);
  }
}

// Buttons for those who do not drag: they do the same with a keyboard.
function zoomButtons(time) {
  const button = (text, title, action) => {
    const made = html("button", { type: "button", title, "aria-label": title }, text);
    made.addEventListener("click", action);
    return made;
  };
  const all = button("all", "show the whole time", () => time.showAll());
  const made = html(
    "span",
    { class: "buttons" },
    button("◀", "earlier", () => time.move(-0.4)),
    button("▶", "later", () => time.move(0.4)),
    button("+", "zoom in", () => time.zoom(0.5)),
    button("−", "zoom out", () => time.zoom(2)),
    all,
  );
  const update = () => (all.disabled = time.isAll);
  time.onChange(update);
  update();
  return made;
}
