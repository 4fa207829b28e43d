// Why something went where it did: what `railyard explain` says of it, or the command that says it.

// `why`: command, which an id follows; texts by id; begin_s, their name for the pictures' 0 s; page, which has the texts.
// Returns what is to be called with an id, and the panel that it was in.
function makeWhy(why) {
  const box = html("div", { class: "why", role: "status" });
  const button = (text, action) => {
    const made = html("button", { type: "button" }, text);
    made.addEventListener("click", action);
    return made;
  };
  return (picked, panel) => {
    const id = picked.replace(/^(j\d+\.[a-z]+\d+)\.\d+$/, "$1"); // of an attempt, its task
    const command = `${why.command} ${id}`, text = why.texts[id];
    const tools = html("div", { class: "tools" }, html("code", {}, command));
    if (navigator.clipboard) tools.append(button("copy", () => navigator.clipboard.writeText(command)));
    tools.append(button("close", () => box.remove()));
    box.replaceChildren(tools);
    if (text && why.begin_s) {
      box.append(html("p", { class: "note" }, `Times here are the cluster's: ${why.begin_s.toFixed(3)} s is 0 s in the pictures.`));
    }
    if (text) box.append(html("div", { class: "wide" }, html("pre", { tabindex: "0" }, text)));
    else box.append(html("p", { class: "note" }, `This command says why ${id} went where it did. `, ...pageLink(why)));
    panel.after(box);
    box.scrollIntoView({ block: "nearest" });
  };
}

function pageLink(why) {
  return why.page ? [html("a", { href: why.page }, "The page of this run"), " may say it, too."] : [];
}
