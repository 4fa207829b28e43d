// How many things of each group there are at a time, one group on top of the other.

// `about`: title; items with begin_s and end_s; group(item): a number; style(group), name(group);
//   most: the top of the scale, drawn as a line (by default the most that there are)
function stackedPart(about) {
  const height = 90;
  return {
    title: about.title,
    labels: ["0000"],
    draw({ left, width, time, x }) {
      const columns = Math.max(1, Math.floor(width - left));
      const counts = stacked(about, columns, time, (seconds) => x(seconds) - left);
      const total = new Int32Array(columns);
      for (const [, of] of counts) total.forEach((_, column) => (total[column] += of[column]));
      const highest = total.reduce((a, b) => Math.max(a, b), 0);
      const limited = about.most && highest * 4 >= about.most; // otherwise there would be little to see
      const most = Math.max(1, highest, limited ? about.most : 0);
      const bars = new Rectangles(), below = new Int32Array(columns);
      for (const [group, of] of counts) {
        for (let begin = 0, end; begin < columns; begin = end) {
          for (end = begin + 1; end < columns && of[end] === of[begin] && below[end] === below[begin]; ) end += 1;
          const top = height - ((below[begin] + of[begin]) / most) * height;
          if (of[begin]) bars.add(about.style(group), left + begin, top, end - begin, (of[begin] / most) * height);
        }
        below.forEach((_, column) => (below[column] += of[column]));
      }
      const limit = limited ? height * (1 - about.most / most) : null;
      const line = limit === null ? [] : [svg("path", { class: "limit", d: `M${left} ${short(limit) + 0.5}H${width}` })];
      return {
        height,
        elements: [...bars.elements(), ...line],
        rows: [{ text: String(most), y: TEXT_PX / 2 }, { text: "0", y: height - TEXT_PX / 2 }],
        describe(timeS) {
          const column = Math.min(columns - 1, Math.max(0, Math.floor(x(timeS) - left)));
          const found = counts.filter(([, of]) => of[column] > 0).map(([group, of]) => `${about.name(group)}: ${of[column]}`);
          if (!found.length) return null;
          const sum = about.most ? [`${total[column]} of ${about.most} at ${duration(timeS)}`] : [];
          return [...sum, ...found.slice(0, 12), ...(found.length > 12 ? [`and ${found.length - 12} more`] : [])];
        },
      };
    },
  };
}

// [group, how many in each column], in the order of groups.  A column has what there is at its left edge.
function stacked(about, columns, time, column) {
  const changes = new Map();
  for (const one of about.items) {
    if (one.end_s < time.fromS || one.begin_s > time.toS) continue;
    const group = about.group(one);
    if (!changes.has(group)) changes.set(group, new Int32Array(columns + 1));
    const of = changes.get(group);
    of[Math.min(columns, Math.max(0, Math.ceil(column(one.begin_s) - 1e-6)))] += 1;
    of[Math.min(columns, Math.max(0, Math.ceil(column(one.end_s) - 1e-6)))] -= 1;
  }
  const sums = (of) => of.map(((sum) => (by) => (sum += by))(0));
  return [...changes].sort(([a], [b]) => a - b).map(([group, of]) => [group, sums(of)]);
}
