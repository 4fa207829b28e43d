// Files of the block store: folders to walk through, and where each block of a file has its replicas.
// Returns a function that shows the same place anew.

const BLOCKS_SHOWN = 400;

function makeBlocks(host, racks) {
  const path = html("input", { type: "text", value: "/", "aria-label": "path", spellcheck: "false" });
  const open = html("button", { type: "submit" }, "show");
  const form = html("form", { class: "tools" }, path, open);
  const note = html("p", { class: "note" }), list = html("ul", { class: "files" }), map = html("div", { class: "blocks" });
  host.append(form, note, list, map);
  const look = async (at, op) => {
    const names = at.split("/").map(encodeURIComponent).join("/");
    const answer = await ask(`webhdfs/v1${names}?op=${op}`);
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.RemoteException?.message ?? answer.statusText);
    return body;
  };
  let shown = "/";
  const show = async (at) => {
    path.value = shown = at;
    let words = "", entries = [], blocks = null;
    try {
      const { FileStatus: about } = await look(at, "GETFILESTATUS");
      if (about.type === "DIRECTORY") {
        entries = (await look(at, "LISTSTATUS")).FileStatuses.FileStatus;
        words = entries.length ? "" : `${at} is empty.`;
      } else {
        blocks = (await look(at, "GET_BLOCK_LOCATIONS")).LocatedBlocks.locatedBlocks;
        words = `${at}: ${size(about.length)} stored, ${blocks.length} block${blocks.length === 1 ? "" : "s"}, ${about.replication} replicas each. A row is a block, a column a rack.`;
      }
    } catch (error) {
      words = String(error.message);
    }
    if (at !== shown) return; // another place is shown by now
    note.textContent = words;
    list.replaceChildren(...entries.map((one) => entry(at, one, show)));
    map.replaceChildren(...(blocks ? [blockMap(blocks.slice(0, BLOCKS_SHOWN), racks)] : []));
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    show(path.value.startsWith("/") ? path.value : `/${path.value}`);
  });
  show("/");
  return () => document.activeElement !== path && show(shown);
}

function entry(folder, one, show) {
  const isFolder = one.type === "DIRECTORY", at = `${folder === "/" ? "" : folder}/${one.pathSuffix}`;
  const name = html("button", { type: "button", class: "link" }, `${one.pathSuffix}${isFolder ? "/" : ""}`);
  name.addEventListener("click", () => show(at));
  return html("li", {}, name, isFolder ? "" : html("small", {}, ` ${size(one.length)}`));
}

function blockMap(blocks, racks) {
  const rackOf = (location) => (location.networkLocation ?? "").replace(/^\//, "");
  const head = html("tr", {}, html("th", {}, "block"), ...racks.map((rack) => html("th", {}, rack)));
  const rows = blocks.map(({ block, locations }, number) => {
    const cells = racks.map((rack) => {
      const here = locations.filter((one) => rackOf(one) === rack);
      return html("td", { title: here.map((one) => one.hostName).join(", ") }, ...here.map(() => html("span", { class: "box place-node" })));
    });
    return html("tr", {}, html("td", {}, `${number} `, html("small", {}, size(block.numBytes))), ...cells);
  });
  return html("div", { class: "wide" }, html("table", {}, html("thead", {}, head), html("tbody", {}, ...rows)));
}
