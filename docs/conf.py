"""Settings of Sphinx: ``scripts/docs`` builds the site from the Markdown of the checkout.

The source folder is the checkout itself, so that a link means the same on the site and in the
files.  The pages in ``docs/reference/`` are written from the code first.  Nothing is loaded from
other hosts: the site works offline.
"""

from pathlib import Path

from docs.reference_pages import write_pages

write_pages(Path(__file__).parent / "reference")

project = "Railyard"
author = "The authors of Railyard"
project_copyright = "2026, the authors of Railyard, Apache-2.0"

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "examples/**.md"]
exclude_patterns = [".*", "build", "dist", "railyard", "tests", "*.egg-info", "**/.venv"]

myst_heading_anchors = 4
myst_links_external_new_tab = False
#: Drawn as a diagram where Markdown is shown on a forge, and as its text here.
myst_fence_as_directive: list[str] = []
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = "Railyard"
html_static_path: list[str] = []
html_show_sphinx = False
html_copy_source = False
