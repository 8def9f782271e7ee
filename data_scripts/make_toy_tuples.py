"""Write the toy corpus of open information extraction that ships inside the package: sentences sampled from patterns.

    python data_scripts/make_toy_tuples.py                # rewrites probtrans_cli/embedded/tuples
    python data_scripts/make_toy_tuples.py --out DIR

Every sentence is a line of JSON with its text and its tuples (arg1; relation; arg2). The patterns have what makes the
task more than one label a word: two relations of one subject, a tuple within another one's argument, a relation that
the sentence does not say ("French president Ann Lee" is a tuple with "is president of"), a subject that is taken up by
"who", and sentences without a tuple. All sentences differ, also across the two files. Same arguments, same text, on
every Python from 3.11 on.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

TOY = Path(__file__).resolve().parent.parent / "probtrans_cli" / "embedded" / "tuples"

CITIES = [
    "Rome", "Paris", "Lima", "Oslo", "Cairo", "Delhi", "Quito", "Vienna", "Madrid", "Athens", "Tokyo", "Lisbon",
    "Dublin", "Prague", "Havana",
]  # fmt: skip
COUNTRIES = [
    "Italy", "France", "Peru", "Norway", "Egypt", "India", "Ecuador", "Austria", "Spain", "Greece", "Japan",
    "Portugal", "Ireland", "Cuba",
]  # fmt: skip
PEOPLES = ["Italian", "French", "Norwegian", "Indian", "Spanish", "Greek", "Japanese", "Irish", "Cuban"]
FIRST = ["Ann", "Bob", "Carl", "Dora", "Emil", "Fay", "Gus", "Hana", "Ida", "Jon"]
LAST = ["Lee", "Marsh", "Novak", "Olsen", "Perez", "Quist", "Rossi", "Stone", "Tanaka", "Weber"]
FIRMS = ["Acme", "Borealis", "Cobalt", "Delphi", "Everest", "Fjord"]
JOBS = ["president", "director", "founder", "owner", "editor", "captain"]
KNOWN_FOR = ["its rich history", "its old bridges", "its food", "the large harbor", "its warm winters", "green parks"]
THINGS = ["a boat", "an old house", "two horses", "the red car", "a small farm", "some land", "the long letter"]
DEEDS = ["bought", "sold", "painted", "found", "lost", "repaired", "wrote"]
MONTHS = ["January", "March", "May", "June", "August", "October"]
NOUNS = ["The river", "The old road", "The train", "A narrow path", "The canal"]
MOVES = ["flows through", "passes", "ends in", "leads to", "starts in"]
SAYING = ["said", "reported", "thought", "wrote"]
NOTHING = ["What a day !", "Not at all .", "Good evening , everyone .", "And then ?", "No way !", "Far from it ."]

Made = tuple[str, list[tuple[str, str, str]]]


def name(r: Random) -> str:
    """A person's name, of one word or two."""
    return r.choice(FIRST) if r.random() < 0.5 else f"{r.choice(FIRST)} {r.choice(LAST)}"


def capital(r: Random) -> Made:
    """Two relations of one subject, or one of them."""
    city, land, known = r.choice(CITIES), r.choice(COUNTRIES), r.choice(KNOWN_FOR)
    first, second = (city, "is the capital of", land), (city, "is known for", known)
    return r.choice([
        (f"{city} is the capital of {land} .", [first]),
        (f"{city} is known for {known} .", [second]),
        (f"{city} is the capital of {land} and is known for {known} .", [first, second]),
        (f"{city} is known for {known} and is the capital of {land} .", [second, first]),
    ])  # fmt: skip


def apposition(r: Random) -> Made:
    """A relation whose "is" the sentence does not say."""
    who, job, firm, deed, thing = name(r), r.choice(JOBS), r.choice(FIRMS), r.choice(DEEDS), r.choice(THINGS)
    tuples = [(who, deed, thing), (who, f"is the {job} of", firm)]
    return f"{who} , the {job} of {firm} , {deed} {thing} .", tuples


def title(r: Random) -> Made:
    """A relation of which the sentence says one word."""
    people, job, who, city, month = r.choice(PEOPLES), r.choice(JOBS), name(r), r.choice(CITIES), r.choice(MONTHS)
    return f"{people} {job} {who} visited {city} in {month} .", [
        (who, "visited", f"{city} in {month}"),
        (who, f"is {job} of", people),
    ]


def born(r: Random) -> Made:
    """Two places of a person."""
    who, one, other, month = name(r), *r.sample(CITIES, 2), r.choice(MONTHS)
    return f"{who} was born in {one} and moved to {other} in {month} .", [
        (who, "was born in", one),
        (who, "moved to", f"{other} in {month}"),
    ]


def told(r: Random) -> Made:
    """A tuple within another one's argument."""
    who, other, saying, deed, thing = name(r), name(r), r.choice(SAYING), r.choice(DEEDS), r.choice(THINGS)
    return f"{who} {saying} that {other} {deed} {thing} .", [
        (who, saying, f"that {other} {deed} {thing}"),
        (other, deed, thing),
    ]


def deeds(r: Random) -> Made:
    """One deed of a person, or two."""
    who, (one, other), (first, second) = name(r), r.sample(DEEDS, 2), r.sample(THINGS, 2)
    if r.random() < 0.4:
        return f"{who} {one} {first} .", [(who, one, first)]
    return f"{who} {one} {first} and {other} {second} .", [(who, one, first), (who, other, second)]


def lives(r: Random) -> Made:
    """A subject that is taken up by "who"."""
    who, city, firm = name(r), r.choice(CITIES), r.choice(FIRMS)
    return f"{who} , who lives in {city} , works for {firm} .", [(who, "lives in", city), (who, "works for", firm)]


def moves(r: Random) -> Made:
    """A thing and a place."""
    what, move, city = r.choice(NOUNS), r.choice(MOVES), r.choice(CITIES)
    return f"{what} {move} {city} .", [(what, move, city)]


def nothing(r: Random) -> Made:
    """A sentence without a tuple."""
    return r.choice(NOTHING), []


PATTERNS: list[Callable[[Random], Made]] = [
    capital,
    capital,
    apposition,
    title,
    born,
    told,
    deeds,
    lives,
    moves,
    nothing,
]


def sentences(number: int, r: Random, seen: set[str]) -> list[Made]:
    """So many sentences, none of which is in ``seen``; all of ``NOTHING`` may come again."""
    found: list[Made] = []
    while len(found) < number:
        text, tuples = r.choice(PATTERNS)(r)
        if text not in seen or not tuples:
            seen.add(text)
            found.append((text, tuples))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=TOY, help="folder to write; default: inside the package")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--train", type=int, default=400, help="number of training sentences")
    parser.add_argument("--dev", type=int, default=60, help="number of dev sentences")
    options = parser.parse_args()
    r, seen = Random(options.seed), set[str]()  # noqa: S311 - text, not secrets
    folder = options.out.expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    for part, number in (("train", options.train), ("dev", options.dev)):
        lines = []
        for text, tuples in sentences(number, r, seen):
            records = [{"arg1": arg1, "rel": rel, "arg2": arg2, "confidence": 1.0} for arg1, rel, arg2 in tuples]
            lines.append(json.dumps({"words": text.split(), "tuples": records}) + "\n")
        (folder / f"{part}.jsonl").write_text("".join(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
