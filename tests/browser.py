"""Pages in headless Chromium, at several widths: errors, what sticks out, what is drawn.

Each page is loaded into frames of a page of the test's, which looks at them, uses them as people
do, and leaves what it found as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.chromium import new_page

WIDTHS = (400, 1280)

_ERRORS = """<script>
addEventListener("error", (event) => parent.errors.push(event.message));
console.error = (...words) => parent.errors.push(words.join(" "));
</script>"""
_LOOK = """<!doctype html><body><script>
"use strict";
window.errors = [];
const frames = PAGES.flatMap(([name, text]) => WIDTHS.map((width) => {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width: ${width}px; height: 900px; border: 0`;
  frame.srcdoc = text;
  document.body.append(frame);
  return [name, width, frame];
}));
const drawn = () => new Promise((done) => setTimeout(done, 200));
function sticksOut(inner, width) {
  const wide = (one) => one.closest(".wide") === null; // those scroll by themselves
  const all = [...inner.querySelectorAll("body *")].filter(wide);
  return all.filter((one) => {
    const box = one.getBoundingClientRect();
    return box.width > 0 && (box.right > width + 0.5 || box.left < -0.5);
  }).map((one) => `${one.tagName} ${one.textContent.slice(0, 40)}`);
}
async function look([name, width, frame]) {
  const inner = frame.contentDocument, host = inner.querySelector("[data-run]");
  const pictures = [...inner.querySelectorAll(".panel svg")].filter((one) => one.viewBox.baseVal);
  const isOfSlots = (one) => one.textContent.includes("slots by rack");
  const slots = [...host.querySelectorAll("figure")].find(isOfSlots);
  const svg = slots.querySelector("svg");
  const ticks = () => [...svg.querySelectorAll(".tick")].map((one) => one.textContent);
  const before = ticks();
  const bar = svg.querySelector("path[class^=j]").getBoundingClientRect();
  const at = { clientX: bar.left + 3, clientY: bar.top + 2, bubbles: true, button: 0 };
  svg.dispatchEvent(new frame.contentWindow.PointerEvent("pointermove", at));
  const tip = [...inner.querySelectorAll(".tip:not([hidden]) > div")].map((one) => one.textContent);
  svg.dispatchEvent(new frame.contentWindow.MouseEvent("click", at));
  const why = inner.querySelector(".why").innerText;
  const outside = sticksOut(inner, width);
  const select = host.querySelector("select"), styles = {};
  for (const option of select.options) {
    select.value = option.value;
    select.dispatchEvent(new frame.contentWindow.Event("change"));
    const paths = [...svg.querySelectorAll("path:not(.grid)")];
    styles[option.value] = paths.map((one) => one.getAttribute("class"));
  }
  host.querySelector("[title='zoom in']").click();
  const after = ticks();
  svg.dispatchEvent(new frame.contentWindow.MouseEvent("dblclick"));
  return {
    name, width, outside, tip, why, before, after, again: ticks(), styles,
    scrolls: inner.documentElement.scrollWidth > width,
    ground: frame.contentWindow.getComputedStyle(inner.body).backgroundColor,
    scales: pictures.filter((one) => one.viewBox.baseVal.width)
      .map((one) => one.getBoundingClientRect().width / one.viewBox.baseVal.width),
    titles: [...inner.querySelectorAll(".panel figcaption")].map((one) => one.textContent),
  };
}
addEventListener("load", async () => {
  await drawn();
  const found = { errors: window.errors, pages: [] };
  try {
    for (const frame of frames) found.pages.push(await look(frame));
  } catch (error) {
    found.errors.push(String(error.stack));
  }
  const made = document.createElement("pre");
  made.id = "found";
  made.textContent = JSON.stringify(found);
  document.body.append(made);
});
</script>"""


def look_at(pages: Mapping[str, Path], folder: Path, *, dark: bool) -> dict[str, Any]:
    """What is found in pages at all ``WIDTHS``; ``folder`` is an empty one for the browser."""
    texts = [
        (name, page.read_text(encoding="utf-8").replace("<head>", f"<head>{_ERRORS}"))
        for name, page in pages.items()
    ]
    embedded = json.dumps(texts).replace("<", "\\u003c")
    look = _LOOK.replace("PAGES", embedded, 1).replace("WIDTHS", json.dumps(WIDTHS), 1)
    (folder / "look.html").write_text(look, encoding="utf-8")
    with new_page(folder, dark=dark) as page:
        page.goto((folder / "look.html").as_uri())
        found: dict[str, Any] = json.loads(page.text_content("#found") or "")
    return found
