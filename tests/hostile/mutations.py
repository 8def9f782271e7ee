"""A file with something wrong in it, by a generator of random choices: bytes, lines, columns, JSON, tensors."""

from __future__ import annotations

import copy
import gzip
import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

from .words import HOSTILE

NUMBERS = (
    "-1", "0", "1", "7", "-0", "1e999", "-1e308", "nan", "inf", "-inf", "NaN", "Infinity", ".nan", ".inf", "1_000",
    "0x1f", "٣", "²", "1e-400", "3.7", "65536", str(2**31 - 1), str(2**31), str(2**63), str(-(2**63) - 1), "9" * 400,
    "9" * 5000, "1" + "0" * 20,
)  # fmt: skip
BYTES = (
    b"\x00", b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\x80", b"\xef\xbb\xbf", b"\xff\xfe",
    b"\x1b]0;x\x07", b"\r", b"\x0b", b"\x0c", b"\x85", b"\xc2\x85", b"\xc2\x9b31m", b"\xe2\x80\xa8", b"\xe2\x80\xae",
    b"\x1f\x8b\x08", b"PK\x03\x04",
)  # fmt: skip
SIGNS = (
    *"\t \n:,;|#-_=*&!%@`'\"{}[]()<>\\/.?~^$", "---\n", "? ", "- ", "!!python/object:os.system ", "&a ", "*a", "<<: ",
)  # fmt: skip
WRONG: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3.7, 1e308, 2**31, 2**63, 2**80, float("nan"), float("inf"), "", "x", "7",
    "\x1b[31m", "\u202e", "\ud800", "a\x00b", "../../etc/passwd", [], {}, [[]], [None], {"": None}, ["x", 7],
    {"kind": "words"},
)  # fmt: skip

Mutation = Callable[[Random, bytes], bytes]


def mutated(chance: Random, content: bytes, *, longest: int = 300) -> bytes:
    """The content with one mutation, or a few. ``longest``: words of a line that is made long."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        name = chance.choice(_NAMES)
        content = _many_words(chance, content, longest) if name == "words" else _MUTATIONS[name](chance, content)
    return content


def hostile(chance: Random) -> bytes:
    return chance.choice(HOSTILE).encode("utf-8", "surrogatepass")


# --- bytes ------------------------------------------------------------------------------------------------------------


def _flip(chance: Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 3, 20)) if changed else 0):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _without(chance: Random, content: bytes) -> bytes:
    start, end = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    return content[:start] + content[end:]


def _splice(chance: Random, content: bytes) -> bytes:
    start, end, place = (chance.randrange(len(content) + 1) for _ in range(3))
    return content[:place] + content[min(start, end) : max(start, end)] + content[place:]


def _with(chance: Random, content: bytes, added: bytes) -> bytes:
    place = chance.choice((0, len(content), chance.randrange(len(content) + 1), chance.randrange(len(content) + 1)))
    return content[:place] + added + content[place:]


def _long(chance: Random, content: bytes) -> bytes:
    added = chance.choice((b"x", b"-", b"'", "é".encode(), b"9")) * chance.choice((1000, 100_000))
    return _with(chance, content, added)


def _deep(chance: Random, content: bytes) -> bytes:
    depth = chance.choice((30, 200, 5000, 100_000))
    return _with(chance, content, chance.choice((b"[", b"{", b'{"a":', b"(", b"- ", b"? ")) * depth)


def _character(chance: Random, content: bytes) -> bytes:
    return _with(chance, content, chr(chance.randrange(0x110000)).encode("utf-8", "surrogatepass"))


def _ends(chance: Random, content: bytes) -> bytes:
    return content.replace(b"\n", chance.choice((b"\r\n", b"\r", b"\n\n", b"\n\x00", "\u2028".encode(), b"\r\r\n")))


def _utf16(chance: Random, content: bytes) -> bytes:
    encoding = chance.choice(("utf-16", "utf-16-le", "utf-32", "latin-1"))
    return content.decode("utf-8", "replace").encode(encoding, "replace")


# --- lines, columns, numbers ------------------------------------------------------------------------------------------


def _lines(chance: Random, content: bytes) -> bytes:
    lines = content.split(b"\n")
    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    do = chance.randrange(5)
    if do == 0:
        del lines[one]
    elif do == 1:
        lines[one:one] = [lines[one]] * chance.choice((1, 2, 500))
    elif do == 2:
        lines[one], lines[other] = lines[other], lines[one]
    elif do == 3:
        lines[one] = chance.choice((b" ", b"\t", b"")) + lines[other]
    else:
        lines[one] = lines[one][: len(lines[one]) // 2] + lines[other]
    return b"\n".join(lines)


def _columns(chance: Random, content: bytes) -> bytes:
    lines = content.split(b"\n")
    number = chance.choice([i for i, line in enumerate(lines) if line.strip()] or [0])
    separator = b"\t" if b"\t" in lines[number] else b" "
    cells = lines[number].split(separator)
    one, other = chance.randrange(len(cells)), chance.randrange(len(cells))
    do = chance.randrange(7)
    if do == 0:
        del cells[one]
    elif do == 1:
        cells[one:one] = [cells[one]] * chance.choice((1, 2, 2000))
    elif do == 2:
        cells[one], cells[other] = cells[other], cells[one]
    elif do == 3:
        cells[one] = hostile(chance)
    elif do == 4:
        cells[one] = chance.choice(NUMBERS).encode()
    elif do == 5:
        cells[one] = chance.choice((b"", b"_", b" ", b"1-2", b"2.1", b"0", b"*", b"B-", b"I-x", b"\xc2\xa0"))
    else:
        separator = chance.choice((b"\t\t", b"  ", b"\xc2\xa0", b"\xe3\x80\x80", b",", b"\x1f"))
    lines[number] = separator.join(cells)
    return b"\n".join(lines)


def _every_column(chance: Random, content: bytes) -> bytes:
    lines = [line.split(b"\t") for line in content.split(b"\n")]
    wide = max(map(len, lines))
    number, value = chance.randrange(wide), chance.choice((b"_", b"", b"0", b"1", b"x", hostile(chance)))
    return b"\n".join(
        b"\t".join([value if i == number < len(line) - 1 else cell for i, cell in enumerate(line)]) for line in lines
    )


def _number(chance: Random, content: bytes) -> bytes:
    found = list(re.finditer(rb"-?\d+(\.\d+)?(e-?\d+)?", content))
    if not found:
        return content
    one = chance.choice(found)
    return content[: one.start()] + chance.choice(NUMBERS).encode() + content[one.end() :]


def _many_words(chance: Random, content: bytes, longest: int) -> bytes:
    return _with(chance, content, b"\n" + b" ".join([b"two"] * chance.randrange(1, longest)) + b"\n")


_NOTHING = (b"", b"", b"\n", b" ", b"\n\n\n", b"\xef\xbb\xbf", b"\x00", b"\t\n")
_MUTATIONS: dict[str, Mutation] = {
    "flip": _flip, "without": _without, "splice": _splice, "character": _character, "long": _long, "deep": _deep,
    "cut": lambda chance, content: content[: chance.randrange(len(content) + 1)],
    "behead": lambda chance, content: content[chance.randrange(len(content) + 1) :],
    "bytes": lambda chance, content: _with(chance, content, chance.choice(BYTES) * chance.choice((1, 1, 1, 50))),
    "sign": lambda chance, content: _with(chance, content, chance.choice(SIGNS).encode()),
    "word": lambda chance, content: _with(chance, content, hostile(chance)),
    "nothing": lambda chance, content: chance.choice(_NOTHING),
    "packed": lambda chance, content: gzip.compress(content, mtime=0),
    "ends": _ends, "utf16": _utf16, "lines": _lines, "columns": _columns, "every": _every_column, "number": _number,
    "words": lambda chance, content: _with(chance, content, hostile(chance)),
}  # fmt: skip
_OFTEN = ("lines", "columns", "columns", "columns", "number", "word", "sign", "every", "flip")
_NAMES = (*_MUTATIONS, *_OFTEN)


# --- JSON -------------------------------------------------------------------------------------------------------------


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    found = [path]
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, content in inner:
        if len(found) < 2000:
            found += _paths(content, (*path, key))
    return found


def json_mutated(chance: Random, content: bytes) -> bytes:
    """A JSON file that still is JSON, with other values, keys or lengths at one place or a few."""
    value = json.loads(content)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        value = _altered(chance, value)
    text = json.dumps(value)
    if chance.random() < 0.05:
        depth = chance.choice((50, 990, 100_000))
        text = '{"a":' * depth + text + "}" * depth
    return text.encode("utf-8", "surrogatepass")


def _altered(chance: Random, value: Any) -> Any:
    paths = _paths(value)
    # Short paths first: most of the places of a vocabulary are its words.
    path = min(chance.choice(paths), chance.choice(paths), key=len)
    wrong = copy.deepcopy(chance.choice(WRONG))
    if not path:
        return wrong if chance.random() < 0.2 else _larger(chance, value)
    parent = value
    for key in path[:-1]:
        parent = parent[key]
    key, do = path[-1], chance.randrange(6)
    if do == 0:
        del parent[key]
    elif do == 1:
        parent[key] = _larger(chance, parent[key])
    elif do == 2 and isinstance(parent, dict):
        parent[chance.choice(("extra", "", "\x1b[2J", "__class__", key * 2))] = wrong
    elif do == 3 and isinstance(parent[key], int | float) and not isinstance(parent[key], bool):
        parent[key] = chance.choice(
            (-parent[key], parent[key] + 1, parent[key] * 10**6, float(parent[key]), str(parent[key]))
        )
    else:
        parent[key] = wrong
    return value


def _larger(chance: Random, value: Any) -> Any:
    if isinstance(value, list):
        if value and chance.random() < 0.5:
            return value[:-1]
        return value * chance.choice((2, 50)) + [copy.deepcopy(chance.choice(WRONG))]
    if isinstance(value, dict):
        return {**value, "extra": copy.deepcopy(chance.choice(WRONG))}
    if isinstance(value, str):
        return value[:20] * chance.choice((2, 10_000)) + chance.choice(HOSTILE)
    return [value]


# --- tensors ----------------------------------------------------------------------------------------------------------


def tensors_mutated(chance: Random, content: bytes) -> bytes:
    """A safetensors file that is one to all appearance: other shapes, kinds, names, values that are not finite."""
    length = int.from_bytes(content[:8], "little")
    header: dict[str, Any] = json.loads(content[8 : 8 + length])
    data = bytearray(content[8 + length :])
    names = [name for name in header if name != "__metadata__"]
    one, other = header[chance.choice(names)], header[chance.choice(names)]
    do = chance.randrange(12)
    if do == 0 and len(one["shape"]) > 1:
        one["shape"].reverse()
    elif do == 1:
        one["shape"], other["shape"] = other["shape"], one["shape"]
    elif do == 2:
        one["shape"] = chance.choice(([], [0], [-1], [2**62, 4], [1, *one["shape"]], [*one["shape"], 1], ["x"], None))
    elif do == 3:
        one["dtype"] = chance.choice(("F16", "BF16", "I32", "U32", "F64", "BOOL", "F8_E4M3", "F4", "X", "", None, 7))
    elif do == 4:
        one["data_offsets"] = chance.choice((other["data_offsets"], [0, 2**62], [4, 0], [-4, 0], [], None))
    elif do == 5:
        header[chance.choice(("extra", "", "\x1b[31m", "a" * 1000))] = header.pop(chance.choice(names))
    elif do == 6:
        del header[chance.choice(names)]
    elif do == 7:
        header["__metadata__"] = chance.choice(({}, None, {"format": "np"}, {"a": "x" * 100_000}))
    elif do == 8:
        data += bytes(64)
    else:
        start, end = one["data_offsets"]
        value = chance.choice(
            (b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x7f", b"\xff\xff\x7f\x7f", b"\xff\xff\xff\xff", b"\x01\x00\x00\x00")
        )
        count = (end - start) // 4
        many = count if chance.random() < 0.5 else min(count, 1)
        data[start : start + 4 * many] = value * many
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + bytes(data)


def json_lines_mutated(chance: Random, content: bytes) -> bytes:
    """A file with a JSON value in each line, one of which is mutated."""
    lines = content.splitlines(keepends=True)
    number = chance.randrange(len(lines))
    return b"".join([*lines[:number], json_mutated(chance, lines[number]), b"\n", *lines[number + 1 :]])


def of_kind(chance: Random, name: str, content: bytes) -> bytes:
    """A file with something wrong in it that its kind knows, by its name; now and then any mutation."""
    if chance.random() < 0.25:
        return mutated(chance, content)
    try:
        if name.endswith(".safetensors"):
            return tensors_mutated(chance, content)
        if name.endswith(".jsonl"):
            return json_lines_mutated(chance, content)
        if name.endswith(".json"):
            return json_mutated(chance, content) + b"\n"
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):  # it was mutated before
        pass
    return mutated(chance, content)
