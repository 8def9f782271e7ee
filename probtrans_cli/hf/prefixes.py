"""What stands in front of the names of a BERT's tensors: `bert.`, and what programs put around a model.

A BERT within a model of somebody's has that attribute's name in front, an output layer beside it has not: `model.bert.`
and `model.classifier.`, or `encoder.` and `classifier.`. What torch wraps around modules may stand anywhere in a name.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

USUAL = ("", "bert.")
_WRAPPERS = {
    "module",  # DataParallel, DistributedDataParallel
    "_orig_mod",  # torch.compile
    "_fsdp_wrapped_module",
    "_checkpoint_wrapped_module",
    "_forward_module",
}
_LAYER_NORM = {"gamma": "weight", "beta": "bias"}  # as files converted long ago have it


@dataclass
class Names:
    """Plain names of tensors, without prefix, by the names in the file."""

    plain: dict[str, str]
    prefix: str = ""
    """What stands in front of the encoder's names, without what torch wraps around modules."""
    others: list[str] = field(default_factory=list)
    """Further prefixes under which the whole of an encoder stands."""
    elsewhere: dict[str, str] = field(default_factory=dict)
    """For tensors of an encoder that stand under another prefix their names in the file."""
    first: str = ""
    """What stands in front of the encoder's names in the file."""
    wrappers: list[str] = field(default_factory=list)
    """What torch has put into names, but for ``first``."""

    @property
    def unusual(self) -> str:
        """For people: what stands in names and is none of BERT's; empty where nothing does."""
        told = [] if self.first in USUAL else [f"the names there begin with {self.first!r}"]
        told += [f"{', '.join(map(repr, self.wrappers))} stands within names"] if self.wrappers else []
        return ", and ".join(told)

    @property
    def beginnings(self) -> str:
        """For people: with what most names begin."""
        begins = Counter(f"{name.partition('.')[0]}." if "." in name else name for name in self.plain)
        return ", ".join(f"{begin!r} ({count})" for begin, count in begins.most_common(5))


def without_prefix(names: Iterable[str], encoder: Collection[str]) -> Names:
    """The plain names of tensors.

    Args:
        names: in the file.
        encoder: the plain names of what an encoder cannot be without.
    """
    bare = {name: _bare(name) for name in names}
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)  # by prefix: plain names of an encoder's tensors
    for name, without in bare.items():
        parts = without.split(".")
        for index in range(len(parts)):
            if (plain := ".".join(parts[index:])) in encoder:
                found[without.removesuffix(plain)][plain] = name
                break
    prefix = max(found, key=lambda it: (len(found[it]), it in USUAL, -len(it)), default="")
    above = [prefix]
    while above[-1]:
        above.append(above[-1].rstrip(".").rpartition(".")[0])
        above[-1] += "." if above[-1] else ""
    plain_names = {
        name: next(without.removeprefix(it) for it in above if without.startswith(it)) for name, without in bare.items()
    }
    whole = [it for it, there in found.items() if len(there) == len(encoder)]
    elsewhere = {plain: name for it, there in found.items() if it != prefix for plain, name in there.items()}
    first = next((name.removesuffix(plain) for plain, name in found[prefix].items() if name.endswith(plain)), prefix)
    wrappers = _WRAPPERS & {part for name in bare for part in name.split(".")} - set(first.split("."))
    return Names(plain_names, prefix, [it for it in whole if it != prefix], elsewhere, first, sorted(wrappers))


def _bare(name: str) -> str:
    """A name without wrappers, and with the names that the parts of a norm have today."""
    parts = [part for part in name.split(".") if part not in _WRAPPERS]
    if len(parts) > 1 and parts[-2] == "LayerNorm":
        parts[-1] = _LAYER_NORM.get(parts[-1], parts[-1])
    return ".".join(parts)
