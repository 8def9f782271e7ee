"""Mutated files and arguments through every verb."""

from __future__ import annotations

import gzip
import json
import re
from random import Random

from support import ROOT

from probtrans_cli.openie.writing import WRITTEN
from probtrans_cli.recipe import reference
from probtrans_cli.trained.formats import FORMATS

from .material import COLUMNS, CORPORA, GRIDS, RUNS, SHORT, TRANSFORMER, WORKPLACE
from .mutations import NUMBERS, SIGNS, hostile, json_lines_mutated, mutated, of_kind
from .place import Group, Place
from .words import HOSTILE

ONE_UPDATE = ("train={steps: 1, batch_words: 200}", "runtime={device: cpu, threads: 1}")
KEYS = [".".join(path) for path, _ in reference.every_key()]
SHIPPED = (
    "quickstart", "pos-ewt-affix", "cogs-universal", "pretrain-wikitext2-bert", "sst5-transformer",
    "wnut17-probabilistic",
)  # fmt: skip
TUPLES = (
    "A saw b .\t0.5\tsaw\tA\tb\tc\nA saw b .\t0.25\tsaw\tA\tb\nIt rains .\t0.5\trains\tIt\n",
    "A saw b .\tsaw\tA\tb\tC: c\nIt rains .\trains\tIt\n",
    "A saw b .\t<arg1> A </arg1> <rel> saw </rel> <arg2> b </arg2>\t0.5\n",
    '{"text": "A saw b .", "tuples": [{"arg1": "A", "rel": "saw", "arg2": "b", "confidence": 0.5}]}\n',
)
COORDINATIONS = (
    "A , B and C\nCP_START SEP CP CC CP\nNONE NONE NONE NONE NONE\n\nA or B\nCP_START CC CP\n",
    '{"words": ["A", "or", "B"], "coordinations": [{"cc": 1, "conjuncts": [[0, 1], [2, 3]]}]}\n',
)


# --- recipes ----------------------------------------------------------------------------------------------------------


def recipe(place: Place) -> None:
    """A recipe in a file or on standard input."""
    chance = place.chance
    text = (place.material / f"runs/{chance.choice(list(RUNS))}/recipe.yaml").read_bytes()
    if chance.random() < 0.3:
        text = (place.material / "tiny.yaml").read_bytes()
    elif chance.random() < 0.3:
        text = (ROOT / f"recipes/{chance.choice(SHIPPED)}.yaml").read_bytes()
    text = mutated(chance, text)
    place.copy("train.conllu", "dev.conllu", "test.conllu", "ner.txt", "texts.tsv", "cogs.tsv", "doc.txt", "notes.txt")
    place.write("mutated.yaml", text)
    place.guard()
    name = chance.choice(("mutated.yaml", "mutated.yaml", "-"))
    verbs = (("train", name, "--print"), ("prepare", name, "--check"), ("prepare", name, "data.prepared=here/prepared"))
    verb = chance.choice((*verbs, verbs[0]))
    place.run(*verb, stdin=text if name == "-" else b"")
    if chance.random() < 0.15:
        place.run("train", "mutated.yaml", *ONE_UPDATE, "data.prepared=here/prepared", "--run", "runs/new")


def override(place: Place) -> None:
    chance = place.chance
    place.copy(*WORKPLACE, "notes.txt")
    place.guard()
    given = [_override(chance) for _ in range(chance.choice((1, 1, 2, 5)))]
    verb = chance.choice(
        (("train", "tiny.yaml", "--print"), ("train", "quickstart", "--print"), ("prepare", "tiny.yaml", "--check"))
    )
    place.run(*verb, *given)


def _override(chance: Random) -> str:
    key = chance.choice(KEYS)
    value: str = chance.choice(
        (_value(chance), _value(chance), chance.choice(NUMBERS), chance.choice(("", "null", "{}", "[]", "yes")))
    )
    text = chance.choice(
        (f"{key}={value}", f"{key}={value}", f"{key}{chance.choice(SIGNS)}={value}", value, f"={value}")
    )
    return argument(text)


def _value(chance: Random) -> str:
    inner = chance.choice((*HOSTILE, *NUMBERS, *SIGNS))
    deep = "[" * chance.choice((20, 5000))
    return chance.choice(
        (inner, f"[{inner}]", f"{{kind: {inner}}}", f"{{{inner}: 1}}", f"'{inner}'", deep, f"!!x {inner}")
    )


def argument(text: str) -> str:
    """Text as an argument can have it: there is no zero byte in one, and the kernel has a limit."""
    return text.replace("\x00", "\x01")[:100_000]


def arguments(place: Place) -> None:
    chance = place.chance
    place.copy(*WORKPLACE, "ner.txt", "notes.txt", "runs/tagger", "runs/tiny")
    place.guard("runs/tagger/checkpoints/eval-test.json", "runs/tiny/checkpoints/eval-test.json")
    word = argument(
        chance.choice(
            (*HOSTILE, *NUMBERS, *SIGNS, "-", "--", "..", "/", ".", "notes.txt", "runs", "runs/tagger/recipe.yaml")
        )
    )
    number = chance.choice(NUMBERS)
    forms = (
        ("eval", "runs/tagger", "--require", chance.choice((f"accuracy>={number}", word, f"{word}<=1"))),
        ("eval", "runs/tagger", "dev.conllu", "--channel", word), ("eval", "runs/tagger", "--iteration", number),
        ("eval", "runs/tiny", "dev.conllu", "--masks", chance.choice(("0", "-1", "nan", "1e3", word))),
        ("eval", word, "dev.conllu"), ("eval", "runs/tagger", word), ("eval", f"runs/tagger@{word}", "dev.conllu"),
        ("eval", "runs/tagger", "dev.conllu", "--predictions", word),
        ("eval", "runs/tiny", "dev.conllu", "--labels", "--top", number),
        ("parse", "runs/tagger", "dev.conllu", "--top", number, "-f", "jsonl"), ("parse", "runs/tagger", word),
        ("parse", "runs/tagger", "dev.conllu", "--longest", number),
        ("parse", "runs/tagger", "dev.conllu", "--samples", chance.choice(("2", "0", "-1", word)), "--seed", number),
        ("parse", "runs/tagger", "dev.conllu", "--best", chance.choice(("2", "0", "nan", word)), "--decode", "mst"),
        ("parse", "runs/tagger", "dev.conllu", "--abstain", number), ("eval", "runs/tagger", "--ood", word),
        ("parse", "runs/tagger", "dev.conllu", "--dropout-samples", chance.choice(("0", "-1", "nan", "2", word))),
        ("eval", "runs/tagger", "runs/tiny", word), ("eval", "runs/tagger", word, "runs/tagger", "--uncertainty"),
        ("score", "calibration", "dev.conllu", "--gold", word), ("score", "calibration", word, "--gold", "dev.conllu"),
        ("parse", "runs/tagger", "dev.conllu", "-f", word), ("parse", "runs/tagger", "dev.conllu", "-o", word),
        ("parse", "runs/tagger", "dev.conllu", "-f", "svg", "-o", word),
        ("parse", "runs/tagger", "dev.conllu", "--threads", number),
        ("parse", "runs/tagger", "dev.conllu", "--channel", number), ("export", "runs/tagger", word),
        ("export", word, "out"), ("export", "runs/tagger", "out", "--dtype", word), ("score", "entities", word),
        ("score", "trees", "dev.conllu", "--gold", word), ("score", word, "dev.conllu"), ("table", word),
        ("table", "runs/tagger", word), ("prepare", word), ("prepare", "tiny.yaml", f"data.prepared={word}"),
        ("train", "tiny.yaml", "--seeds", word, "--dry-run"), ("train", word, "--dry-run"),
        ("train", "tiny.yaml", word, "--print"), ("train", "tiny.yaml", *ONE_UPDATE, "--run", word),
        ("train", "tiny.yaml", "--init-from", word, "--dry-run"), ("train", "tiny.yaml", *ONE_UPDATE, f"name={word}"),
        (word,), ("parse", word), ("-q", word), (word, "--json"),
    )  # fmt: skip
    form = chance.choice(forms)
    if {"-o", "--predictions"} & set(form):  # what is named there is to be written
        place.guarded.pop(form[-1].removeprefix("./"), None)
    place.run(*form, stdin=b"two cheap farmers\n")


# --- corpora ----------------------------------------------------------------------------------------------------------


def corpus(place: Place) -> None:
    """A corpus that is prepared, and some that are trained on."""
    chance = place.chance
    run = chance.choice(list(RUNS))
    original = CORPORA[run]
    overrides = list(RUNS[run])
    if run == "classes" and chance.random() < 0.5:
        original = "texts.jsonl"
        overrides[0] = overrides[0].replace("texts.tsv", original).replace("table", "jsonl")
    if run == "ner" and chance.random() < 0.5:
        changed = chance.choice(
            (COLUMNS, "columns: {word: 1, tag: 0}", "columns: {scheme: iob1, strict: true, entities: iob2}")
        )
        overrides[0] = overrides[0].replace(COLUMNS, changed)
    if run == "tiny" and chance.random() < 0.8:
        original = chance.choice(list(GRIDS))
        form = "coordinations" if original.startswith("coordinated") else "extractions"
        grid = chance.choice(("{}", "{fix_lengths: true}", "{rows: 1}", "{extra_words: []}"))
        grid = "{}" if "extra" in grid and form == "coordinations" else grid
        overrides += [f"data={{train: {original}, dev: {original}, test: {original}, format: {form}, grid: {grid}}}"]
    content = (place.material / original).read_bytes()
    name = f"mutated-{original}"
    content = _maybe_packed(chance, mutated(chance, content, longest=1500))
    if content[:2] == b"\x1f\x8b" or chance.random() < 0.03:
        name += ".gz"
    place.copy(*WORKPLACE, original, "notes.txt")
    place.write(name, content)
    splits = chance.choice((("train",), ("dev",), ("train", "dev", "test"), ("extra",)))
    overrides += [f"data.{split}={name}" for split in splits] + ["data.prepared=here/prepared"]
    place.guard()
    if chance.random() < 0.25:
        place.run("train", "tiny.yaml", *SHORT[1:], *overrides, *ONE_UPDATE, "--run", "runs/new", "--json")
    else:
        place.run("prepare", "tiny.yaml", *overrides, *chance.choice(((), ("--check",), ("--json",))))


def _maybe_packed(chance: Random, content: bytes) -> bytes:
    """Compressed now and then, and then cut off or damaged now and then."""
    if chance.random() > 0.15:
        return content
    packed = bytearray(gzip.compress(content, mtime=0))
    do = chance.randrange(4)
    if do == 0:
        del packed[chance.randrange(2, len(packed)) :]
    elif do == 1:
        packed[chance.randrange(2, len(packed))] ^= 1 << chance.randrange(8)
    elif do == 2:
        packed += chance.choice((b"\0" * 10, b"x", bytes(packed)))
    return bytes(packed)


EVALUATIONS: tuple[tuple[str, ...], ...] = (
    (), ("--baselines",), ("--channel", "all"), ("--decode", "mst"), ("--json",), ("--predictions", "out.txt"),
    ("--masks", "1"), ("--relations",), ("--labels", "--top", "3", "--json"), ("--require", "accuracy>=0.5"),
    ("--decode", "eisner", "--baselines"), ("--uncertainty",), ("--uncertainty", "--dropout-samples", "2", "--json"),
)  # fmt: skip


def evaluated(place: Place) -> None:
    """A file that a trained model is scored on."""
    chance = place.chance
    run = chance.choice(list(RUNS))
    ending = CORPORA[run].replace("train.", "dev.")
    name = place.write(f"mutated-{ending}", mutated(chance, (place.material / ending).read_bytes(), longest=1200))
    place.write("out.txt", "another result\n")
    place.guard("out.txt")
    options = chance.choice(EVALUATIONS)
    if chance.random() < 0.2:  # another text beside one that is as it should be
        place.run("eval", str(place.material / "runs" / run), str(place.material / ending), "--ood", name)
        return
    place.run("eval", str(place.material / "runs" / run), name, *options)


OF_PARSE = (
    "--prob", "--gold", "--labels", "--trees=no", "--channel=all", "--top=2", "--decode=argmax", "--decode=mst",
    "--uncertainty", "--abstain=0.5", "--dropout-samples=2", "--samples=2", "--best=2", "--marginals",
)  # fmt: skip


def parsed(place: Place) -> None:
    """Text, tokens or CoNLL-U in a file, compressed or on standard input, in every format."""
    chance = place.chance
    original = chance.choice(("plain.txt", "plain.txt", "dev.conllu", "train.conllu.gz"))
    content = (place.material / original).read_bytes()
    if original == "dev.conllu" or chance.random() < 0.9:
        content = mutated(chance, content[:4000], longest=400)
    if chance.random() < 0.2:
        content = b"\n".join(b" ".join(hostile(chance) for _ in range(4)) for _ in range(3))
    name = place.write(f"mutated-{original}", content)
    place.write("out/notes.txt", "what a user has written\n")
    place.guard()
    run = chance.choice((*RUNS, "exported"))
    where = place.material / (run if run == "exported" else f"runs/{run}")
    options = ["-f", chance.choice(list(FORMATS)), "--longest", "450"]
    options += [option for option in OF_PARSE if chance.random() < 0.2]
    options += chance.choice(
        ([], [], ["--input", "tokens"], ["--input", "conllu"], ["--input", "text"], ["-o", "out"], ["-o", "new.txt"])
    )
    piped = chance.random() < 0.3
    place.run("parse", str(where), *([] if piped else [name]), *options, stdin=content if piped else b"")


def scored(place: Place) -> None:
    """Files of predictions, of any system."""
    chance = place.chance
    json = chance.choice(((), ("--json",)))
    if chance.random() < 0.5:
        name = place.write("mutated.txt", mutated(chance, (place.material / "side.txt").read_bytes()))
        gold = () if chance.random() < 0.6 else ("--gold", str(place.material / "ner.txt"))
        place.guard()
        place.run("score", "entities", name, *gold, *json)
        return
    if chance.random() < 0.5:
        ending, content = chance.choice(list(probable((place.material / "trees.conllu").read_text("utf-8")).items()))
        alter = mutated if ending == "conllu" or chance.random() < 0.5 else json_lines_mutated
        name = place.write(f"mutated.{ending}", alter(chance, content.encode()))
        place.guard()
        column = chance.choice(((), ("--column", "upos")))
        place.run("score", "calibration", name, "--gold", str(place.material / "dev.conllu"), *column, *json)
        return
    name = place.write("mutated.conllu", mutated(chance, (place.material / "trees.conllu").read_bytes()))
    theirs = str(place.material / "dev.conllu")
    pair = chance.choice(((name, theirs), (theirs, name), (name, name)))
    place.guard()
    place.run("score", "trees", pair[0], "--gold", pair[1], *json)


def extracted(place: Place) -> None:
    """Files of tuples and of coordinations, of any system."""
    chance = place.chance
    kind, files, options = chance.choice(
        (
            ("carb", TUPLES, ((), ("--single-match",), ("--default-confidence", "0.5"))),
            ("wire57", TUPLES, ((),)),
            ("coordination", COORDINATIONS, ((), ("--compat", "o6"))),
        )
    )
    content = chance.choice(files)
    alter = json_lines_mutated if content.startswith("{") and chance.random() < 0.5 else mutated
    name = place.write("mutated.txt", alter(chance, content.encode()))
    theirs = place.write("theirs.txt", chance.choice(files).encode())
    pair = chance.choice(((name, theirs), (theirs, name), (name, name)))
    place.guard()
    place.run("score", kind, pair[0], "--gold", pair[1], *chance.choice(options), *chance.choice(((), ("--json",))))


def converted(place: Place) -> None:
    """Files of tuples and of coordinations in each form, into every other."""
    chance = place.chance
    original = chance.choice((*GRIDS, "dev.conllu"))
    content = (place.material / original).read_bytes()
    name = place.write(f"mutated-{original}", _maybe_packed(chance, mutated(chance, content, longest=1500)))
    place.write("new.txt", "another result\n")
    form = chance.choice(list(WRITTEN))
    options = [
        *chance.choice(((), (), ("--from", "extractions"), ("--from", "coordinations"))),
        *chance.choice(((), ("--rows", "1"), ("--fix-lengths",))),
        *chance.choice(((), ("-o", "new.txt"))),
    ]
    place.guard()
    place.guarded.pop("new.txt", None)
    place.run("convert", name, "--to", form, *options)


def probable(conllu: str) -> dict[str, str]:
    """The sentences of a file with a probability of every tag, in both forms that are scored, by the file's ending."""
    blocks = [[line.split("\t") for line in block.splitlines() if line[:1].isdigit()] for block in conllu.split("\n\n")]
    records = [
        {"words": [row[1] for row in rows], "tags": [row[3] for row in rows], "tag_probability": [0.75] * len(rows)}
        for rows in blocks
        if rows
    ]
    return {
        "conllu": re.sub(r"\t[^\t\n]*\n", "\tTagProb=0.75\n", conllu),
        "jsonl": "".join(f"{json.dumps(one)}\n" for one in records),
    }


def pieces(place: Place) -> None:
    """The vocabulary of a folder of Hugging Face's."""
    chance = place.chance
    place.copy(*WORKPLACE, "folder")
    name = chance.choice(("vocab.txt", "tokenizer.json", "tokenizer_config.json"))
    path = place.folder / "folder" / name
    path.write_bytes(of_kind(chance, name, path.read_bytes()))
    if name == "tokenizer.json" and chance.random() < 0.5:
        (place.folder / "folder/vocab.txt").unlink()
    place.guard()
    vocabulary = "data.vocabulary={kind: wordpiece, folder: folder}"
    place.run("prepare", "tiny.yaml", TRANSFORMER, vocabulary, "data.prepared=here/prepared")


GROUPS = (
    Group("recipe", 1200, recipe), Group("override", 700, override), Group("arguments", 700, arguments),
    Group("corpus", 1300, corpus), Group("evaluated", 700, evaluated), Group("parsed", 1300, parsed),
    Group("scored", 550, scored), Group("extracted", 250, extracted), Group("converted", 400, converted),
    Group("pieces", 150, pieces),
)  # fmt: skip
