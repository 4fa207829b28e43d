// Bytes from rack to rack, as a square: rows are the racks they left, columns those they came to.

// Returns a function that draws it, of the racks' names and a map from "r0 r3" to bytes.
function makeMatrix(host) {
  const caption = html("figcaption");
  const picture = svg("svg", { role: "img", "aria-label": "bytes from rack to rack" });
  host.append(html("figure", { class: "panel" }, caption, picture));
  let now = { racks: [], pairs: new Map() }, left = 0, cell = 0;

  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - left) / cell), row = Math.floor((event.clientY - box.top - AXIS_PX) / cell);
    const src = now.racks[row], dst = now.racks[column];
    if (!src || !dst) return tip.hide();
    const bytes = now.pairs.get(`${src} ${dst}`) ?? 0;
    return tip.show(event, [`${src} to ${dst}`, bytes ? size(bytes) : "nothing"]);
  });
  picture.addEventListener("pointerleave", () => tip.hide());

  const draw = (racks = now.racks, pairs = now.pairs) => {
    now = { racks, pairs };
    const room = Math.min(picture.parentElement.clientWidth, 460);
    if (room <= 0) return;
    left = 32;
    cell = Math.min(34, (room - left) / Math.max(1, racks.length));
    const cells = new Rectangles(), most = Math.max(0, ...pairs.values());
    let sum = 0;
    racks.forEach((src, row) =>
      racks.forEach((dst, column) => {
        const bytes = pairs.get(`${src} ${dst}`) ?? 0;
        sum += src === dst ? 0 : bytes;
        const level = bytes ? Math.max(1, Math.ceil((bytes / most) * HEAT_STEPS)) : 0;
        const gap = cell > 6 ? 1 : 0;
        cells.add(`h${level}`, left + column * cell, AXIS_PX + row * cell, cell - gap, cell - gap);
      }),
    );
    caption.textContent = `shuffle from rack (rows) to rack (columns): ${size(sum)} between racks, ${size(most)} at most from one to one`;
    const every = Math.ceil(26 / cell), side = racks.length * cell, width = left + side;
    const labels = racks.flatMap((rack, n) =>
      n % every ? [] : [label(left + (n + 0.5) * cell, AXIS_PX - 6, "middle", rack), label(left - 5, AXIS_PX + (n + 0.5) * cell + 4, "end", rack)],
    );
    picture.setAttribute("viewBox", `0 0 ${width} ${side + AXIS_PX}`);
    picture.setAttribute("height", side + AXIS_PX);
    picture.style.width = `${width}px`;
    picture.replaceChildren(...cells.elements(), ...labels);
  };
  redrawWith(host, () => draw());
  return draw;
}

function label(x, y, anchor, text) {
  const made = svg("text", { x: short(x), y: short(y), "text-anchor": anchor });
  made.textContent = text;
  return made;
}
