"""Kind VII: the words of a command, as Hadoop splits them."""

from __future__ import annotations

from tests.streamed import streamed

LINE = b"x.1\ty.2\n"


def test_case_30_a_backslash_is_a_letter(hadoop):
    assert streamed(hadoop, LINE, "-mapper", r"tr \t \n") == b"x.1\ny.2\n"
    assert streamed(hadoop, LINE, "-mapper", r"sed s/\./-/g") == b"x-1\ty-2\n"


def test_case_30_quotes_hold_words_together(hadoop):
    mapper = "sh -c 'sed '\"'\"'s/x/it is/'\"'\"''"
    assert streamed(hadoop, LINE, "-mapper", mapper) == b"it is.1\ty.2\n"
    assert streamed(hadoop, LINE, "-mapper", 'sed "s/x/a \\n/"') == b"a \n.1\ty.2\n"
