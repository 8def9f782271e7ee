"""A small corpus of sentences with logical forms, as in COGS, and the ways to say a word's parent."""

from __future__ import annotations

from typing import Literal

Parent = Literal["relative", "absolute", "category", "attention"]
PARENTS: tuple[Parent, ...] = ("relative", "absolute", "category", "attention")
ROWS = [
    ("An otter juggled the pebble .", "* pebble ( x _ 4 ) ; otter ( x _ 1 ) AND juggle . agent ( x _ 2 , x _ 1 )"
     " AND juggle . theme ( x _ 2 , x _ 4 )", "in_distribution"),
    ("Wim doubted that a kite sank .", "doubt . agent ( x _ 1 , Wim ) AND doubt . ccomp ( x _ 1 , x _ 5 ) AND"
     " kite ( x _ 4 ) AND sink . theme ( x _ 5 , x _ 4 )", "in_distribution"),
    ("otter", "LAMBDA a . otter ( a )", "primitive"),
    ("Wim", "Wim", "primitive"),
    ("The otter hesitated to yodel .", "* otter ( x _ 1 ) ; hesitate . agent ( x _ 2 , x _ 1 ) AND"
     " hesitate . xcomp ( x _ 2 , x _ 4 ) AND yodel . agent ( x _ 4 , x _ 1 )", "cp_recursion"),
    ("A kite on the shelf sank .", "* shelf ( x _ 4 ) ; kite ( x _ 1 ) AND kite . nmod . on ( x _ 1 , x _ 4 ) AND"
     " sink . theme ( x _ 5 , x _ 1 )", "obj_pp_to_subj_pp"),
    ("Wim sank .", "sink . theme ( x _ 1 , Wim )", "brand_new"),
]  # fmt: skip
LINES = ["\t".join(row) for row in ROWS]
NEW = "A walrus sank .\twalrus ( x _ 1 ) AND sink . theme ( x _ 2 , x _ 1 )\tx"
BEYOND = "Wim yawned .\tyawn . agent ( x _ 1 , Wim )\tprimitive"  # its verb is not in train
