"""COGS as sequence labelling: a logical form becomes five labels a word, and the labels become the form again.

COGS is of Kim and Linzen (2020), https://aclanthology.org/2020.emnlp-main.731; the labels are those of Ontañón et al.
(2022), https://aclanthology.org/2022.acl-long.251, as Bergen et al. (2021) publish them. In the forms `x _ 3` is word 3
of the sentence, counted from 0. The terms stand in the order of their first variable, then of their second.

| word                       | parent          | role                   | category | noun_type  | verb_name |
| -------------------------- | --------------- | ---------------------- | -------- | ---------- | --------- |
| common noun                | verb            | agent theme recipient  | CNOUN    | DEF, INDEF |           |
| proper noun                | verb            | agent theme recipient  | PNOUN    |            |           |
| verb of the main clause    | -1              |                        | VERB     |            | its lemma |
| verb of a *that* clause    | verb above it   | ccomp                  | VERB     |            | its lemma |
| infinitive                 | verb above it   | xcomp                  |          |            | its lemma |
| preposition between nouns  | noun before it  | PREP                   |          |            |           |
| noun after the preposition | its preposition | PP_NOUN                | CNOUN    | DEF, INDEF |           |
| any other word             | -1              |                        |          |            |           |

An infinitive has no agent of its own in the labels; in the form it has that of the verb above it. For example::

    0 The  1 otter  2 on  3 a  4 raft  5 hoped  6 to  7 yawn  8 .

    * otter ( x _ 1 ) ; otter . nmod . on ( x _ 1 , x _ 4 ) AND raft ( x _ 4 )
        AND hope . agent ( x _ 5 , x _ 1 ) AND hope . xcomp ( x _ 5 , x _ 7 ) AND yawn . agent ( x _ 7 , x _ 1 )

    parent     -1   5      1     -1  2        -1    -1  5      -1
    role            agent  PREP      PP_NOUN            xcomp
    category        CNOUN            CNOUN    VERB
    noun_type       DEF              INDEF
    verb_name                                 hope      yawn

A primitive is one word: a proper noun's form is the word, a common noun's is `LAMBDA a . otter ( a )`, and its labels
are the category alone. The form of a verb has its arguments, which the labels do not hold: see :func:`logical_form`.

Nothing here needs torch: the program beside an exported graph has this module, too.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ROLES = ("", "agent", "theme", "recipient", "ccomp", "xcomp", "PREP", "PP_NOUN")
CATEGORIES = ("", "CNOUN", "PNOUN", "VERB")
NOUN_TYPES = ("", "DEF", "INDEF")
NONE = "none"  # the class that stands for a label that a word does not have
_RELATIONS = ("agent", "theme", "recipient", "ccomp", "xcomp")

_BETWEEN_TERMS = re.compile(" ; | AND ")
_VARIABLE = "x _ ([0-9]{1,9})"
_NOUN = re.compile(rf"(\* )?(\S+) \( {_VARIABLE} \)")
_MODIFIER = re.compile(rf"(\S+) \. nmod \. (\S+) \( {_VARIABLE} , {_VARIABLE} \)")
_RELATION = re.compile(rf"(\S+) \. ({'|'.join(_RELATIONS)}) \( {_VARIABLE} , (?:{_VARIABLE}|(\S+)) \)")
_VERB_ALONE = re.compile(r"LAMBDA a \. (?:LAMBDA b \. )?LAMBDA e \. (\S+) \. ")

_NOUN_ALONE = "LAMBDA a . {0} ( a )"
_TRANSITIVE = "LAMBDA a . LAMBDA b . LAMBDA e . {0} . agent ( e , b ) AND {0} . theme ( e , a )"
_AGENT_ONLY = "LAMBDA a . LAMBDA e . {0} . agent ( e , a )"
_THEME_ONLY = "LAMBDA a . LAMBDA e . {0} . theme ( e , a )"
# The lemmas that have these forms; every other verb has the first one.
_AGENT_ONLY_VERBS = (
    "crawl cry dance frown gasp giggle jog laugh nap run scoff scream sleep smile smirk sneeze snooze snore stutter "
    "talk walk"
)
_THEME_ONLY_VERBS = (
    "break burn change collapse crumple decompose disintegrate double enlarge float freeze grow improve inflate redden "
    "roll shorten slide snap split"
)


@dataclass(frozen=True, slots=True)
class GraphLabels:
    """The labels of a sentence, one a word in every list; an empty string is no label."""

    parents: list[int]  # index of the parent word from 0, or -1
    role: list[str]  # what the word is to its parent, one of ``ROLES``
    category: list[str]  # one of ``CATEGORIES``
    noun_type: list[str]  # one of ``NOUN_TYPES``: definite or indefinite
    verb_name: list[str]  # the lemma of a verb

    def __post_init__(self) -> None:
        lengths = [len(self.parents), len(self.role), len(self.category), len(self.noun_type), len(self.verb_name)]
        if len(set(lengths)) > 1:
            raise ValueError(f"lists of labels of {', '.join(map(str, lengths))} words")


# --- labels that do not depend on places ------------------------------------------------------------------------------


def kinds_of_words(role: Sequence[str], category: Sequence[str], verb_name: Sequence[str]) -> list[str]:
    """Return a label that is the same in every sentence: the category of a noun, VERB of infinitives as well, PREP of a
    preposition, else an empty string. With the role it says what the category says: :func:`categories`."""
    labels = zip(role, category, verb_name, strict=True)
    return ["PREP" if of_word == "PREP" else "VERB" if verb else kind for of_word, kind, verb in labels]


def categories(role: Sequence[str], kinds: Sequence[str]) -> list[str]:
    """Return the categories of words with these :func:`kinds_of_words`: an infinitive has none, nor a preposition."""
    labels = zip(role, kinds, strict=True)
    return ["" if kind == "PREP" or (kind == "VERB" and of_word == "xcomp") else kind for of_word, kind in labels]


def places_of_kinds(kinds: Sequence[str]) -> dict[str, list[int]]:
    """Return where the words are that parents are counted among, by their :func:`kinds_of_words`: of NOUN, which common
    and proper nouns are, VERB, PREP, and all others."""
    places: dict[str, list[int]] = {}
    for i, kind in enumerate(kinds):
        places.setdefault(_merged_kind(kind), []).append(i)
    return places


def _merged_kind(kind: str) -> str:
    return "NOUN" if kind.endswith("NOUN") else kind


def parents_by_category(labels: GraphLabels) -> list[str]:
    """Return parents as labels that no distance changes (Strzyz et al., NAACL 2019): `+1 VERB` is the first verb to the
    right, `-2 NOUN` the second noun to the left; an empty string is no parent."""
    kinds = kinds_of_words(labels.role, labels.category, labels.verb_name)
    places = places_of_kinds(kinds)
    texts = []
    for i, parent in enumerate(labels.parents):
        kind = _merged_kind(kinds[parent])
        before = bisect_right if parent > i else bisect_left
        number = before(places[kind], parent) - before(places[kind], i)
        texts.append("" if parent < 0 else f"{number:+d} {kind}".strip())
    return texts


def parent_by_category(label: str, i: int, places: Mapping[str, Sequence[int]]) -> int | None:
    """Return the parent of word ``i`` that a label of :func:`parents_by_category` means, among the places of
    :func:`places_of_kinds`; -1 = none, None = no such word."""
    if not label:
        return -1
    text, _, kind = label.partition(" ")
    number, of_kind = int(text), places.get(kind, ())
    at = bisect_right(of_kind, i) + number - 1 if number > 0 else bisect_left(of_kind, i) + number
    return of_kind[at] if 0 <= at < len(of_kind) else None


BETWEEN_LABELS = "|"


def frames_of_words(labels: GraphLabels) -> list[str]:
    if len(labels.parents) == 1:
        return [""]
    kinds = kinds_of_words(labels.role, labels.category, labels.verb_name)
    columns = zip(kinds, labels.role, parents_by_category(labels), labels.noun_type, strict=True)
    return list(map(BETWEEN_LABELS.join, columns))


# --- from forms to labels ---------------------------------------------------------------------------------------------


def analyse(words: Sequence[str], logical_form: str) -> GraphLabels:
    """Return the labels of a sentence from its logical form.

    A name that occurs several times is told apart by order alone: its first use in the form is its first occurrence.
    Of several equal prepositions between two nouns, the last one is meant.

    Raises:
        ValueError: the form is malformed or does not fit the words.
    """
    if not words:
        raise ValueError("a sentence without words")
    if len(words) == 1:  # perhaps a primitive
        category, verb = "", ""
        if logical_form == words[0]:
            category = "PNOUN"
        elif logical_form == _NOUN_ALONE.format(words[0].lower()):
            category = "CNOUN"
        elif match := _VERB_ALONE.match(logical_form):
            verb = match[1]
            if logical_form in [frame.format(verb) for frame in (_TRANSITIVE, _AGENT_ONLY, _THEME_ONLY)]:
                category = "VERB"
        if category:
            return GraphLabels([-1], [""], [category], [""], [verb])
    analysis = _read(words, logical_form)
    # What the reading did not look at (order, separators, stars, zeros) shows when the form is written again.
    if (written := _write(words, analysis)) != logical_form:
        raise ValueError(f"the form is not in order: its terms make {written!r}")
    return analysis


def _read(words: Sequence[str], form: str) -> GraphLabels:
    """Return the labels that the terms of a form give, whatever stands between them."""
    n = len(words)
    labels = GraphLabels([-1] * n, [""] * n, [""] * n, [""] * n, [""] * n)
    unused: dict[str, list[int]] = {}  # places of every word that no name has taken, the first one last
    for i in range(n - 1, -1, -1):
        unused.setdefault(words[i], []).append(i)
    for term in _BETWEEN_TERMS.split(form):
        if match := _RELATION.fullmatch(term):
            verb, role, head, variable, name = match.groups()
            i = _place(words, term, head)
            infinitive = labels.role[i] == "xcomp"
            if labels.verb_name[i] not in ("", verb):
                raise ValueError(f"{term!r}: the verb of word {i} was {labels.verb_name[i]!r} before")
            labels.verb_name[i] = verb
            labels.category[i] = "" if infinitive else "VERB"
            if infinitive and role == "agent":  # that of the verb above it
                continue
            if variable is not None:
                _attach(labels, term, _place(words, term, variable), i, role)
            elif places := unused.get(name):
                k = places.pop()
                _attach(labels, term, k, i, role)
                labels.category[k] = "PNOUN"
            else:
                raise ValueError(f"{term!r}: no {'other ' if name in words else ''}{name!r} in the sentence")
        elif match := _NOUN.fullmatch(term):
            star, word, variable = match.groups()
            i = _place(words, term, variable, word)
            labels.category[i] = "CNOUN"
            labels.noun_type[i] = "DEF" if star else "INDEF"
        elif match := _MODIFIER.fullmatch(term):
            word, preposition, head, noun = match.groups()
            i, k = _place(words, term, head, word), _place(words, term, noun)
            j = next((j for j in range(k - 1, i, -1) if words[j] == preposition), None)
            if j is None:
                raise ValueError(f"{term!r}: no {preposition!r} between the words {i} and {k}")
            _attach(labels, term, j, i, "PREP")
            _attach(labels, term, k, j, "PP_NOUN")
        else:
            raise ValueError(f"{term!r} is not a term of a logical form")
    return labels


def _place(words: Sequence[str], term: str, variable: str, word: str | None = None) -> int:
    """Return the index of a variable; its word must be ``word``, if that is not None (forms have no capitals)."""
    i = int(variable)
    if i >= len(words):
        raise ValueError(f"x _ {variable} in {term!r}: the sentence has {len(words)} words")
    if word is not None and words[i].lower() != word:
        raise ValueError(f"{term!r}: word {i} of the sentence is {words[i]!r}")
    return i


def _attach(labels: GraphLabels, term: str, i: int, parent: int, role: str) -> None:
    if labels.role[i]:
        raise ValueError(f"{term!r}: word {i} has a role already, {labels.role[i]}")
    labels.parents[i], labels.role[i] = parent, role


# --- from labels to forms ---------------------------------------------------------------------------------------------


def logical_form(words: Sequence[str], analysis: GraphLabels) -> str | None:
    """Return the logical form that the labels describe, or None if they describe none; no labels make it raise.

    A form is returned only if :func:`analyse` makes the same labels of it, so different labels of a sentence never
    give the same form, and a form equals the gold form exactly when every label is right, those of blank words too.
    None stands for labels that contradict each other or that no form shows, such as a parent without a role, a
    preposition without a noun, the type of a proper noun: leaving them out would repair them. Of 60,000 random changes
    of one label in the development set none gives the gold form, 9 % give another form, 91 % give None. If what is not
    shown were left out, 72 % would give the gold form: mostly labels of blank words, of verbs without a parent, and
    those that belong to another category.

    The labels of a verb alone (a primitive) do not hold its arguments. They are looked up by its lemma: an agent only
    or a theme only for the 41 lemmas that are so in the 81 verb primitives of COGS, agent and theme for every other.
    """
    if len(words) != len(analysis.parents):
        return None
    form = _write(words, analysis)
    try:
        return form if analyse(words, form) == analysis else None
    except ValueError:
        return None


def _write(words: Sequence[str], labels: GraphLabels) -> str:
    """The form of labels that have one; otherwise terms of whatever has a place in a form."""
    if len(words) == 1 and (labels.role[0], labels.noun_type[0]) == ("", "") and labels.category[0]:
        category, verb = labels.category[0], labels.verb_name[0]
        if category != "VERB":
            return _NOUN_ALONE.format(words[0].lower()) if category == "CNOUN" else words[0]
        if verb in _AGENT_ONLY_VERBS.split():
            return _AGENT_ONLY.format(verb)
        return (_THEME_ONLY if verb in _THEME_ONLY_VERBS.split() else _TRANSITIVE).format(verb)
    children: list[list[int]] = [[] for _ in words]
    for i, parent in enumerate(labels.parents):
        if 0 <= parent < len(words):
            children[parent].append(i)
    definite: list[str] = []
    terms: list[str] = []
    agents: list[str | None] = []
    for i, word in enumerate(map(str.lower, words)):
        if labels.category[i] == "CNOUN" and labels.noun_type[i] == "DEF":
            definite.append(f"* {word} ( x _ {i} )")
        elif labels.category[i] == "CNOUN" and labels.noun_type[i] == "INDEF":
            terms.append(f"{word} ( x _ {i} )")
        for j in children[i]:
            if labels.role[j] == "PREP":
                nouns = [k for k in children[j] if labels.role[k] == "PP_NOUN"]
                terms += [f"{word} . nmod . {words[j]} ( x _ {i} , x _ {k} )" for k in nouns]
        arguments = [
            (labels.role[j], words[j] if labels.category[j] == "PNOUN" else f"x _ {j}")
            for j in children[i]
            if labels.role[j] in _RELATIONS
        ]
        # The verb above an infinitive stands before it.
        if labels.role[i] == "xcomp" and 0 <= labels.parents[i] < i and (agent := agents[labels.parents[i]]):
            arguments.insert(0, ("agent", agent))
        agents.append(next((argument for role, argument in arguments if role == "agent"), None))
        terms += [f"{labels.verb_name[i]} . {role} ( x _ {i} , {argument} )" for role, argument in arguments]
    return " ; ".join([*definite, " AND ".join(terms)] if terms else definite)


# --- predictions ------------------------------------------------------------------------------------------------------

OUTSIDE = -3  # a parent that is no word of the sentence
LABELS_OF_WORDS = ("role", "category", "noun_type", "verb_name")


def graph_labels(
    texts: Mapping[str, Sequence[str]], parent: str, by_attention: Sequence[int] | None = None
) -> GraphLabels:
    """Return the labels of a sentence of COGS.

    Args:
        texts: the label of every word, by column.
        parent: how parents are learned: ``relative`` or ``absolute`` places, by ``category``, or by ``attention``.
        by_attention: in that case the parents, -1 = none.
    """
    labels = {name: list(of_words) for name, of_words in texts.items()}
    if "kind" in labels:
        labels["category"] = categories(labels["role"], labels["kind"])
    else:
        labels["kind"] = kinds_of_words(labels["role"], labels["category"], labels["verb_name"])
    if by_attention is not None:
        parents = list(by_attention)
    elif parent == "category":
        places = places_of_kinds(labels["kind"])
        counted = [parent_by_category(label, i, places) for i, label in enumerate(labels["by_category"])]
        parents = [OUTSIDE if place is None else place for place in counted]
    else:
        parents = []
        for i, label in enumerate(labels["offset" if parent == "relative" else "position"]):
            place = int(label or 0) + (i if parent == "relative" else 0)
            # A parent before the first word is not the same as none.
            parents.append(-1 if not label else place if 0 <= place < len(labels["kind"]) else OUTSIDE)
    return GraphLabels(parents, labels["role"], labels["category"], labels["noun_type"], labels["verb_name"])


def graph_record(labels: GraphLabels, words: Sequence[str] | None) -> dict[str, Any]:
    """Return the ``labels`` of the words, by column, and their ``logical_form``; None where words are unknown."""
    columns = {name: list(getattr(labels, name)) for name in LABELS_OF_WORDS}
    form = None if words is None else logical_form(words, labels)
    return {"labels": {**columns, "parent": list(labels.parents)}, "logical_form": form}
