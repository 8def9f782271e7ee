"""A small corpus with named entities, a word and its tag a line."""

from __future__ import annotations

TRAIN = """\
Wim B-PER
Vos I-PER
sails O
to O
Elst B-LOC
. O

Elst B-LOC
sank O

rain O

Anna B-PER
van I-PER
Elst I-PER
met O
Wim B-PER
and O
the B-SHIP
Otter I-SHIP
"""
DEV = """\
Anna B-PER
sank O

Elst B-LOC

the B-PRIZE
golden I-PRIZE
Otter I-PRIZE
met O
Wim B-PRIZE
Anna B-PER
Vos I-PER
de I-PER
Wit I-PER
. O

Elst B-LOC
and I-LOC
Otter B-SHIP
"""
