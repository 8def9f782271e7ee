"""The picture of the learning curve is that of the table of its page."""

from __future__ import annotations

import learning_curve


def test_the_picture_is_drawn_from_the_table() -> None:
    names, rows = learning_curve.read_table()
    assert [len(names), *rows[0, :3]] == [4, 100.0, 50.97, 44.41]
    found = learning_curve.PICTURE.read_text("utf-8")
    assert found == learning_curve.drawn(), "draw it again: python tests/text/learning_curve.py"
