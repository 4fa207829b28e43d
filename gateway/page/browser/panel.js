// A panel: a title, rows with labels, a time axis; dragging zooms, pointing says what is there.

const TEXT_PX = 11;
const AXIS_PX = 20;

// The tip that follows the pointer; one for the whole page.
const tip = (() => {
  const box = html("div", { class: "tip", hidden: "" });
  return {
    show(event, lines) {
      if (!box.isConnected) document.body.append(box);
      box.replaceChildren(...lines.map((line) => html("div", {}, line)));
      box.hidden = false;
      const { width, height } = box.getBoundingClientRect();
      const right = document.documentElement.clientWidth - width - 4;
      const above = event.clientY - height - 14;
      box.style.left = `${Math.max(4, Math.min(event.clientX + 14, right))}px`;
      box.style.top = `${above > 4 ? above : event.clientY + 20}px`;
    },
    hide() {
      box.hidden = true;
    },
  };
})();

// Labels of rows, as many as there is room for: `rows` has {text, y, style}, and `about` if more is to be said of one.
function rowLabels(rows, left) {
  const found = [];
  let last = -Infinity;
  for (const { text, about, y, style } of rows) {
    if (y - last < TEXT_PX) continue;
    last = y;
    const label = svg("text", { x: left - 6, y: y + TEXT_PX * 0.36, class: `row ${style ?? ""}` });
    label.textContent = cut(text, left - 8, TEXT_PX);
    const whole = svg("title");
    whole.textContent = about || text;
    label.append(whole);
    found.push(label);
  }
  return found;
}

function timeAxis(time, left, width, height) {
  const x = (s) => left + ((s - time.fromS) / (time.toS - time.fromS)) * (width - left);
  const found = [];
  for (const { value, text } of ticks(time.fromS, time.toS, (width - left) / 70)) {
    const at = short(x(value));
    found.push(svg("path", { class: "grid", d: `M${at} 0V${height}` }));
    const anchor = at > width - 14 ? "end" : at < left + 6 ? "start" : "middle";
    const label = svg("text", { x: at, y: height + 14, class: "tick", "text-anchor": anchor });
    label.textContent = `${text} s`;
    found.push(label);
  }
  return found;
}

// Make a panel below `host`.  `part` is one of the parts' results:
//   title, labels: of the rows, for the room that they need
//   draw({left, width, time, x}): {height, elements, rows, describe(timeS, y): lines or null,
//     pick(timeS, y): id or null, if there are ids}
// `picked` is called with the id of what was clicked, and the panel.
// Returns a function that draws it: the same part anew, or another one.
function makePanel(host, part, time, leftOf, picked) {
  const caption = html("figcaption", {}, part.title);
  const picture = svg("svg", { role: "img", "aria-label": part.title });
  const figure = html("figure", { class: "panel" }, caption, picture);
  host.append(figure);
  let left = 0, width = 0, drawn = null;
  const selection = svg("rect", { class: "selection", y: 0, width: 0, visibility: "hidden" });
  const timeAt = (px) => time.fromS + ((px - left) / (width - left)) * (time.toS - time.fromS);

  function draw(other = part) {
    if (other !== part) {
      part = other;
      caption.textContent = part.title;
      picture.setAttribute("aria-label", part.title);
    }
    width = picture.parentElement.clientWidth;
    if (width === 0) return;
    left = leftOf(width);
    const x = (s) => left + ((s - time.fromS) / (time.toS - time.fromS)) * (width - left);
    drawn = part.draw({ left, width, time, x });
    const height = drawn.height;
    picture.setAttribute("viewBox", `0 0 ${width} ${height + AXIS_PX}`);
    picture.setAttribute("height", height + AXIS_PX);
    selection.setAttribute("height", height);
    const axis = timeAxis(time, left, width, height);
    picture.replaceChildren(...axis, ...drawn.elements, ...rowLabels(drawn.rows, left), selection);
  }

  let beganAt = null, isDrag = false;
  const place = (event) => {
    const box = picture.getBoundingClientRect();
    return { px: Math.max(left, Math.min(width, event.clientX - box.left)), y: event.clientY - box.top };
  };
  picture.addEventListener("pointerdown", (event) => {
    if (event.button === 0 && event.clientX - picture.getBoundingClientRect().left > left) {
      beganAt = place(event).px;
      isDrag = false;
      picture.setPointerCapture(event.pointerId);
    }
  });
  picture.addEventListener("pointermove", (event) => {
    const { px, y } = place(event);
    if (beganAt !== null && Math.abs(px - beganAt) > 4) {
      isDrag = true;
      selection.setAttribute("x", Math.min(px, beganAt));
      selection.setAttribute("width", Math.abs(px - beganAt));
      selection.setAttribute("visibility", "visible");
    }
    const lines = drawn?.describe(timeAt(px), y) ?? null;
    if (lines) tip.show(event, lines);
    else tip.hide();
  });
  picture.addEventListener("pointerup", (event) => {
    const { px } = place(event);
    selection.setAttribute("visibility", "hidden");
    if (beganAt !== null && Math.abs(px - beganAt) > 4) {
      const [fromS, toS] = [timeAt(Math.min(px, beganAt)), timeAt(Math.max(px, beganAt))];
      beganAt = null;
      time.show(fromS, toS);
    }
    beganAt = null;
  });
  picture.addEventListener("pointercancel", () => {
    beganAt = null;
    selection.setAttribute("visibility", "hidden");
    tip.hide();
  });
  picture.addEventListener("pointerleave", () => tip.hide());
  picture.addEventListener("click", (event) => {
    const { px, y } = place(event), id = isDrag ? null : drawn?.pick?.(timeAt(px), y);
    if (id && picked) picked(id, figure);
  });
  picture.addEventListener("dblclick", () => time.showAll());
  picture.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.shiftKey) return; // the page scrolls
      event.preventDefault();
      time.zoom((event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8, timeAt(place(event).px));
    },
    { passive: false },
  );
  return draw;
}
