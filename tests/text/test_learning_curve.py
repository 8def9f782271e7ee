"""Pictures of learning curves are those of the tables of their pages."""

from __future__ import annotations

import learning_curve


def test_pictures_are_drawn_from_the_tables() -> None:
    names, rows = learning_curve.PICTURES[0].read_table()
    assert [len(names), *rows[0, :3]] == [4, 100.0, 50.97, 44.41]
    for picture in learning_curve.PICTURES:
        content = picture.path.read_text("utf-8")
        assert content == picture.drawn(), "draw it again: python tests/text/learning_curve.py"
