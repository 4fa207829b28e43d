"""Text of others in tables: shown as it is."""

import io

from rich.console import Console
from rich.table import Table

from railyard.scripts.terminal.tables import cell


def test_names_are_no_markup_and_move_no_cursor():
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="standard")
    table = Table("name")
    table.add_row(cell("[red]x[/] [/nothing] \x1b[2J\u202e"))
    console.print(table)
    assert "[red]x[/] [/nothing] \\x1b[2J\\u202e" in console.file.getvalue()
