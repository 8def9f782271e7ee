"""Write the toy treebank that ships inside the package: a small English-like dependency grammar, sampled with a seed.

    python data_scripts/make_toy_treebank.py                # rewrites probtrans_cli/embedded/toy
    python data_scripts/make_toy_treebank.py --check        # also prints sizes and the floors of induced trees

The grammar is made to be *read off co-occurrence*: a word is predictable from its head and its dependents and from
little else. Heads follow Universal Dependencies (content words are heads; prepositions, determiners and auxiliaries
depend on them). The linguistic pieces:

selection      a verb takes subjects of one class and objects of one class; the two are crossed, so that the subject
               says nothing about the object. A noun's adjectives, determiners and places are crossed with its class
               in the same way, a verb's adverbs, places and auxiliary with its subject and object classes.
agreement      determiner and noun agree in number, and so do subject and verb (or "has"/"have"), also across a
               relative clause or a phrase.
attachment     "... the goat near the river" and "... the goat in the kitchen" look alike: the place decides whether it
               modifies the noun before it or the verb.
long distance  determiners and numerals stand before the adjectives, relative clauses and phrases between subject and
               verb, particles after the object ("hangs the red coat up"), adverbs and places at either end.
ambiguity      "cook", "lock", "print" are nouns and verbs, "that" is a determiner and a pronoun, "fixed" past and
               participle, "fix" plural and infinitive, "sheep" singular and plural.

Frequencies inside a class are flat and modifiers are about as rare as their heads, so that rarity does not betray the
head. A few nouns and adjectives occur in dev and test only. All sentences differ, across the three files too.
Same arguments, same text, on every Python from 3.11 on.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np

from probtrans_cli.trees.score import floors

TOY = Path(__file__).resolve().parent.parent / "probtrans_cli" / "embedded" / "toy"

# --- lexicon ----------------------------------------------------------------------------------------------------------

# class: singular or singular/plural; the position in the row decides adjectives, places and determiners (see Noun).
SUBJECT_NOUNS = {
    "family": "mother father widow",
    "worker": "baker cook farmer",
    "animal": "dog sheep/sheep fox/foxes",
    "official": "judge mayor guard",
}
OBJECT_NOUNS = {
    "food": "cake potato/potatoes pie",
    "cloth": "shirt coat scarf/scarves",
    "paper": "letter print book",
    "tool": "hammer rope lock",
}
# Nouns and adjectives that the training file never shows.
NEW_NOUNS = {
    "family": "nephew daughter",
    "worker": "welder potter",
    "animal": "camel wolf/wolves",
    "official": "senator bishop",
    "food": "turnip bun",
    "cloth": "jacket veil",
    "paper": "diary/diaries leaflet",
    "tool": "shovel crate",
}

# lemma, third person, past (= participle); classes of subject and object; kinds of adverbs and places; particle or -
VERBS = """
cook   cooks   cooked    family   food   pace   home    -
hang   hangs   hung      family   cloth  care   school  up
keep   keeps   kept      family   paper  noise  town    -
lock   locks   locked    family   tool   habit  home    away
sell   sells   sold      worker   food   care   town    off
fold   folds   folded    worker   cloth  noise  home    -
print  prints  printed   worker   paper  habit  school  out
fix    fixes   fixed     worker   tool   pace   town    -
chew   chews   chewed    animal   food   noise  school  up
rip    rips    ripped    animal   cloth  habit  town    -
lick   licks   licked    animal   paper  pace   home    -
drag   drags   dragged   animal   tool   care   school  off
tax    taxes   taxed     official food   habit  home    -
ban    bans    banned    official cloth  pace   school  -
hand   hands   handed    official paper  care   town    out
track  tracks  tracked   official tool   noise  home    down
"""

ADJECTIVES = {
    "size": "small huge tiny short tall thin wide heavy little big giant slim",
    "color": "red brown black white pale grey golden blue green pink dark bright",
    "state": "wet dirty dusty cold warm dry muddy fresh clean torn sticky soft",
    "worth": "famous rare cheap lovely plain strange precious fine good bad royal humble",
}
NEW_ADJECTIVES = {"size": "broad", "color": "purple", "state": "rusty", "worth": "splendid"}
ADVERBS = {
    "pace": "quickly slowly soon suddenly",
    "care": "gently calmly carefully neatly",
    "noise": "loudly proudly wildly happily",
    "habit": "often rarely always daily",
}
MODALS = ("will", "can", "must")

# Places: one noun for each pair of prepositions. The first three kinds modify verbs, the others nouns.
PREPOSITIONS = ("in inside", "on under", "near by", "behind past")
VERB_PLACES = {
    "home": "kitchen table stove sofa",
    "town": "market bridge station church",
    "school": "library desk board door",
}
NOUN_PLACES = {
    "farm": "barn cart well stable",
    "coast": "harbor beach river dune",
    "hill": "cave hill road wall",
}

# habit: determiners of the singular; of the plural. "the" goes with everything.
DETERMINERS = {
    "pointing": ("this that", "these those"),
    "counting": ("a every", "two three many"),
    "owning": ("my our", "my our"),
}
PLACE_DETERMINERS = ("the", "a", "our", "the")
DETERMINER_TAGS = {
    "my": ("PRON", "PRP$", "nmod:poss"),
    "our": ("PRON", "PRP$", "nmod:poss"),
    "two": ("NUM", "CD", "nummod"),
    "three": ("NUM", "CD", "nummod"),
    "many": ("ADJ", "JJ", "amod"),
}

# --- rules: how often something happens -------------------------------------------------------------------------------

HABIT = 0.9  # a modifier is of the kind that its head asks for
FAVOURITE = 4  # a noun prefers every other verb of its class by this factor
THE = 0.1
NEW_WORD = 0.06  # in dev and test
PLURAL = 0.5
ADJECTIVE = 0.6
NOUN_PLACE = 0.22
RELATIVE = 0.45
ADVERB = 0.55
VERB_PLACE = 0.4
PARTICLE_LAST = 0.75
TENSES = {"present": 4, "past": 2, "modal": 3, "perfect": 2}
LENGTHS = range(4, 15)
PAIRS = 20  # minimal pairs of a phenomenon, at most

# --- trees ------------------------------------------------------------------------------------------------------------


@dataclass
class Word:
    """A word with its dependents to the left and to the right, in the order of the sentence."""

    form: str
    lemma: str
    upos: str
    xpos: str
    deprel: str
    left: list[Word] = field(default_factory=list)
    right: list[Word] = field(default_factory=list)

    def in_order(self) -> list[Word]:
        """All words below this one and itself, from left to right: the tree is projective by construction."""
        before = [word for child in self.left for word in child.in_order()]
        return [*before, self, *(word for child in self.right for word in child.in_order())]


@dataclass(frozen=True)
class Noun:
    """A noun of the lexicon and what it asks of its modifiers."""

    singular: str
    plural: str
    kind: str
    index: int
    adjectives: str
    places: str
    determiners: str


@dataclass(frozen=True)
class Verb:
    """A verb of the lexicon and what it asks of its arguments and modifiers."""

    lemma: str
    third: str
    past: str
    subject: str
    object: str
    adverbs: str
    places: str
    particle: str
    index: int


def _nouns(rows: dict[str, str]) -> dict[str, list[Noun]]:
    """Nouns by class; adjectives, places and determiners rotate against the class, so that none tells of another."""
    adjectives, places, determiners = list(ADJECTIVES), list(NOUN_PLACES), list(DETERMINERS)
    nouns: dict[str, list[Noun]] = {}
    for row, (kind, words) in enumerate(rows.items()):
        nouns[kind] = []
        for i, word in enumerate(words.split()):
            singular, _, plural = word.partition("/")
            modifiers = (adjectives[(i + row) % 4], places[(i + row) % 3], determiners[(i + 2 * row) % 3])
            nouns[kind].append(Noun(singular, plural or singular + "s", kind, i, *modifiers))
    return nouns


def _verbs(table: str) -> list[Verb]:
    verbs = []
    for i, line in enumerate(table.strip().splitlines()):
        lemma, third, past, subject, object_, adverbs, places, particle = line.split()
        verbs.append(Verb(lemma, third, past, subject, object_, adverbs, places, particle, i))
    return verbs


NOUNS = _nouns(SUBJECT_NOUNS | OBJECT_NOUNS)
UNSEEN_NOUNS = _nouns(NEW_NOUNS)
VERB_LIST = _verbs(VERBS)


def determiner_word(form: str) -> Word:
    """A determiner, possessive or numeral with its lemma, tags and relation."""
    lemma = {"these": "this", "those": "that"}.get(form, form)
    return Word(form, lemma, *DETERMINER_TAGS.get(form, ("DET", "DT", "det")))


class Grammar:
    """Samples sentences; ``new_words`` allows the words that the training file must not have."""

    def __init__(self, random: Random, *, new_words: bool) -> None:
        self.random = random
        self.new_words = new_words

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, words: str) -> str:
        return self.random.choices(words.split())[0]

    def kind(self, kinds: dict[str, str] | dict[str, tuple[str, str]], wanted: str) -> str:
        """The kind that the head asks for, now and then another one."""
        return wanted if self.chance(HABIT) else self.random.choices(list(kinds))[0]

    def sentence(self) -> Word:
        """A clause with subject, the root of its tree."""
        kind = self.random.choices(list(SUBJECT_NOUNS))[0]
        plural = self.chance(PLURAL)
        noun = self.noun(kind)
        verb = self.verb(noun)
        subject = self.noun_phrase(noun, plural, "nsubj", full=True)
        return self.clause(verb, subject, plural, "root")

    def noun(self, kind: str, verb: Verb | None = None) -> Noun:
        """A noun of a class, rather one that the verb likes as its object."""
        if self.new_words and self.chance(NEW_WORD):
            return self.random.choices(UNSEEN_NOUNS[kind])[0]
        nouns = NOUNS[kind]
        likes = verb.index // 2 + verb.index // 4 if verb else 0
        weights = [FAVOURITE if verb and (likes + noun.index) % 2 else 1 for noun in nouns]
        return self.random.choices(nouns, weights)[0]

    def verb(self, subject: Noun) -> Verb:
        verbs = [verb for verb in VERB_LIST if verb.subject == subject.kind]
        weights = [FAVOURITE if (verb.index + subject.index) % 2 else 1 for verb in verbs]
        return self.random.choices(verbs, weights)[0]

    def noun_phrase(self, noun: Noun, plural: bool, deprel: str, *, full: bool) -> Word:
        """Determiner, adjectives, noun; then, only where ``full``, a relative clause."""
        form = noun.plural if plural else noun.singular
        head = Word(form, noun.singular, "NOUN", "NNS" if plural else "NN", deprel)
        head.left.append(self.determiner(noun.determiners, plural))
        while self.chance(ADJECTIVE) and len(head.left) < 3:
            head.left.append(self.adjective(noun.adjectives))
        if self.chance(NOUN_PLACE):
            head.right.append(self.place(self.kind(NOUN_PLACES, noun.places), NOUN_PLACES, "nmod"))
        elif full and self.chance(RELATIVE):
            pronoun = self.pick("who that" if noun.kind != "animal" else "which that")
            subject = Word(pronoun, pronoun, "PRON", "WP" if pronoun == "who" else "WDT", "nsubj")
            head.right.append(self.clause(self.verb(noun), subject, plural, "acl:relcl"))
        return head

    def determiner(self, habit: str, plural: bool) -> Word:
        """A determiner, possessive or numeral that agrees with the noun in number."""
        form = "the" if self.chance(THE) else self.pick(DETERMINERS[self.kind(DETERMINERS, habit)][plural])
        return determiner_word(form)

    def adjective(self, wanted: str) -> Word:
        unseen = self.new_words and self.chance(NEW_WORD)
        form = self.pick((NEW_ADJECTIVES if unseen else ADJECTIVES)[self.kind(ADJECTIVES, wanted)])
        return Word(form, form, "ADJ", "JJ", "amod")

    def place(self, kind: str, places: dict[str, str], deprel: str) -> Word:
        """Preposition, determiner, noun; the noun chooses the other two and is the head."""
        row = list(places).index(kind)
        column, form = self.random.choices(list(enumerate(places[kind].split())))[0]
        preposition = self.pick(PREPOSITIONS[column])
        determiner = PLACE_DETERMINERS[(column + row) % 4] if self.chance(HABIT) else self.pick("the a our")
        left = [Word(preposition, preposition, "ADP", "IN", "case"), determiner_word(determiner)]
        return Word(form, form, "NOUN", "NN", deprel, left)

    def clause(self, verb: Verb, subject: Word, plural: bool, deprel: str) -> Word:
        """Everything around a verb; main clauses may begin with an adverb or a place."""
        main = deprel == "root"
        head, auxiliary = self.verb_form(verb, plural, deprel)
        first: list[Word] = []
        middle: list[Word] = []
        last: list[Word] = []
        if self.chance(ADVERB if main else ADVERB / 2):
            form = self.pick(ADVERBS[self.kind(ADVERBS, verb.adverbs)])
            position = self.random.choices([first, middle, last], [2 if main else 0, 2, 3])[0]
            position.append(Word(form, form, "ADV", "RB", "advmod"))
        if self.chance(VERB_PLACE if main else VERB_PLACE / 2):
            place = self.place(self.kind(VERB_PLACES, verb.places), VERB_PLACES, "obl")
            (first if main and not first and self.chance(0.35) else last).append(place)
        head.right.append(self.noun_phrase(self.noun(verb.object, verb), self.chance(PLURAL), "obj", full=False))
        if verb.particle != "-":
            particle = Word(verb.particle, verb.particle, "ADP", "RP", "compound:prt")
            head.right.insert(1 if self.chance(PARTICLE_LAST) else 0, particle)
        head.left = [*first, subject, *auxiliary, *middle]
        head.right += last
        return head

    def verb_form(self, verb: Verb, plural: bool, deprel: str) -> tuple[Word, list[Word]]:
        """The verb in some tense, and its auxiliary if it has one."""
        tense = self.random.choices(list(TENSES), list(TENSES.values()))[0]
        auxiliary: list[Word] = []
        if tense == "modal":
            weights = [6 if i == verb.index % 3 else 1 for i in range(3)]
            modal = self.random.choices(MODALS, weights)[0]
            auxiliary = [Word(modal, modal, "AUX", "MD", "aux")]
            form, xpos = verb.lemma, "VB"
        elif tense == "perfect":
            have = ("have", "VBP") if plural else ("has", "VBZ")
            auxiliary = [Word(have[0], "have", "AUX", have[1], "aux")]
            form, xpos = verb.past, "VBN"
        elif tense == "past":
            form, xpos = verb.past, "VBD"
        else:
            form, xpos = (verb.lemma, "VBP") if plural else (verb.third, "VBZ")
        return Word(form, verb.lemma, "VERB", xpos, deprel), auxiliary


# --- files ------------------------------------------------------------------------------------------------------------


def heads_of(words: Sequence[Word]) -> list[int]:
    """The number of each word's head, counted from 1; 0 = root."""
    number = {id(word): i for i, word in enumerate(words, start=1)}
    head = {id(child): number[id(word)] for word in words for child in [*word.left, *word.right]}
    return [head.get(id(word), 0) for word in words]


def conllu(root: Word, sentence_id: str) -> str:
    """One sentence of CoNLL-U, with its closing empty line."""
    words = root.in_order()
    lines = [f"# sent_id = {sentence_id}", "# text = " + " ".join(word.form for word in words)]
    for i, (word, head) in enumerate(zip(words, heads_of(words), strict=True), start=1):
        columns = (i, word.form, word.lemma, word.upos, word.xpos, "_", head, word.deprel, "_", "_")
        lines.append("\t".join(map(str, columns)))
    return "\n".join(lines) + "\n\n"


def generate(seed: int, train: int, dev: int, test: int) -> dict[str, list[Word]]:
    """The sentences of every split. Test and dev do not depend on the size of train; no sentence occurs twice."""
    seen: set[tuple[str, ...]] = set()
    splits: dict[str, list[Word]] = {}
    for i, (split, size) in enumerate({"test": test, "dev": dev, "train": train}.items()):
        grammar = Grammar(Random(3 * seed + i), new_words=split != "train")  # noqa: S311 - text, not secrets
        splits[split] = []
        while len(splits[split]) < size:
            root = grammar.sentence()
            forms = tuple(word.form for word in root.in_order())
            if len(forms) in LENGTHS and forms not in seen:
                seen.add(forms)
                splits[split].append(root)
    return splits


def files(splits: dict[str, list[Word]]) -> dict[str, bytes]:
    """Contents by file name; train and pairs are gzipped, without name and time inside, so that they repeat."""

    def packed(text: str) -> bytes:
        content = io.BytesIO()
        with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=content, mtime=0) as file:
            file.write(text.encode())
        return content.getvalue()

    texts = {
        split: "".join(conllu(root, f"toy-{split}-{i}") for i, root in enumerate(splits[split], start=1))
        for split in ("train", "dev", "test")
    }
    pairs = "".join(json.dumps(pair) + "\n" for pair in minimal_pairs(splits["test"]))
    return {
        "train.conllu.gz": packed(texts["train"]),
        "dev.conllu": texts["dev"].encode(),
        "test.conllu": texts["test"].encode(),
        "pairs.jsonl.gz": packed(pairs),
    }


# --- minimal pairs ----------------------------------------------------------------------------------------------------


def minimal_pairs(sentences: Sequence[Word]) -> Iterator[dict[str, str]]:
    """Pairs of a sentence of the grammar and one that a single word keeps out of it, with the keys of BLiMP."""
    third = {verb.lemma: verb.third for verb in VERB_LIST} | {"have": "has"}
    numbers = {noun.singular: noun for nouns in NOUNS.values() for noun in nouns if noun.singular != noun.plural}
    counting = {form for singular, plural in DETERMINERS.values() for form in {*singular.split()} ^ {*plural.split()}}
    count: Counter[str] = Counter()
    for root in sentences:
        words = root.in_order()
        (subject,) = (word for word in root.left if word.deprel == "nsubj")
        (object_,) = (word for word in root.right if word.deprel == "obj")
        changes: dict[str, tuple[Word, str]] = {}
        finite = next((word for word in root.left if word.deprel == "aux"), root)
        if finite.xpos in ("VBZ", "VBP") and subject.lemma != "sheep":  # which agrees with both
            other = finite.lemma if finite.xpos == "VBZ" else third[finite.lemma]
            changes["agreement across a phrase" if subject.right else "agreement"] = finite, other
        if object_.left[0].form in counting and (noun := numbers.get(object_.lemma)):
            changes["determiner and noun"] = object_, noun.singular if object_.xpos == "NNS" else noun.plural
        (verb,) = (verb for verb in VERB_LIST if verb.lemma == root.lemma)
        kinds = list(OBJECT_NOUNS)
        stranger = NOUNS[kinds[kinds.index(verb.object) - 1]][0]
        changes["selection"] = object_, stranger.plural if object_.xpos == "NNS" else stranger.singular
        for phenomenon, (word, form) in changes.items():
            if count[phenomenon] < PAIRS:
                count[phenomenon] += 1
                good, bad = (" ".join(text if w is word else w.form for w in words) for text in (word.form, form))
                yield {"sentence_good": good, "sentence_bad": bad, "linguistics_term": phenomenon}


# --- check ------------------------------------------------------------------------------------------------------------


def check(splits: dict[str, list[Word]]) -> str:
    """Sizes, unknown words and the floors that induced trees have to beat."""
    count = Counter(word.form for root in splits["train"] for word in root.in_order())
    lines = [f"train vocabulary {len(count)}"]
    for split, roots in splits.items():
        sentences = [root.in_order() for root in roots]
        words = sum(map(len, sentences))
        unknown = sum(word.form not in count for sentence in sentences for word in sentence)
        lines.append(
            f"{split}: {len(roots)} sentences, {words} words ({words / max(len(roots), 1):.1f} a sentence), "
            f"{100 * unknown / max(words, 1):.1f} % unknown"
        )
        gold = [np.array(heads_of(sentence)) for sentence in sentences]
        frequency = [np.array([count[word.form] for word in sentence]) for sentence in sentences]
        of_rules = floors(gold, None, frequency)
        for rule in ("next_word", "nearest_rarer"):
            scores = of_rules[rule]["with_punct"]["all"]
            uas, uuas = (100 * (scores[name] or 0.0) for name in ("uas", "uuas"))
            lines.append(f"  {rule.replace('_', ' '):14} UAS {uas:.1f}  UUAS {uuas:.1f}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--out", type=Path, default=TOY, metavar="DIR", help="folder to write (default: the package)")
    parser.add_argument("--seed", type=int, default=1)
    for split, size in {"train": 2600, "dev": 120, "test": 150}.items():
        parser.add_argument(f"--{split}", type=int, default=size, metavar="N", help=f"sentences (default {size})")
    parser.add_argument("--check", action="store_true", help="print sizes and the floors of induced trees")
    options = parser.parse_args(arguments)
    splits = generate(options.seed, options.train, options.dev, options.test)
    folder = options.out.expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    contents = files(splits)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    print(", ".join(f"{name} {len(content):,} bytes" for name, content in contents.items()), file=sys.stderr)
    if options.check:
        print(check(splits))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
