"""Pages as single files: the templates, with the style sheet and the parts that draw in browsers.

A page fetches nothing.  Data for the parts is JSON in the page; ``gateway.page`` has the parts,
which the live page uses, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from railyard.cluster.shown import printable
from railyard.gateway.page.assets import script, style
from railyard.scripts.results.outputfile import write_text

_HERE = Path(__file__).parent


def write_html(template: str, file: Path, values: Mapping[str, Any]) -> None:
    """Write a page from one of ``templates/``; raises ``NotWritten``.

    Values that are text are escaped; ``embedded`` makes those that stand in a script.
    """
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=readable,
    )
    common = {"style": Markup(style()), "script": Markup(script("curves.js", "page.js"))}
    write_text(environment.get_template(template).render(common | dict(values)), file)


def embedded(data: Any) -> Any:
    """Data as JSON that can stand in a page's script element."""
    from markupsafe import Markup

    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


def readable(value: Any) -> Any:
    """A value for the page: text loses control characters, HTML stays as it is."""
    return printable(value) if type(value) is str else value
