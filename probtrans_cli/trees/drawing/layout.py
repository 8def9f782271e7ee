"""Where the arcs of a picture run: their heights, and their order at a word. The same for every picture."""

from __future__ import annotations

from collections.abc import Sequence

from probtrans_cli.trees.drawing.drawing import Arc, Drawing


def levels(arcs: Sequence[Arc]) -> list[int]:
    """Height of each arc, from 1: the lowest above every arc within it; overlapping arcs never share one. Root: 0."""
    spans = [(min(arc.dependent, arc.head), max(arc.dependent, arc.head)) for arc in arcs]
    skyline = [0] * (max((right for _, right in spans), default=0) + 1)  # height above the gap after each word
    result = [0] * len(arcs)
    for index in sorted(range(len(arcs)), key=lambda i: (spans[i][1] - spans[i][0], spans[i][0], i)):
        left, right = spans[index]
        if left == 0:
            continue
        result[index] = 1 + max(skyline[left:right])
        skyline[left:right] = [result[index]] * (right - left)
    return result


def ends(drawing: Drawing, heights: Sequence[int]) -> list[list[int]]:
    """For each word the indices of its arcs from left to right, so that nested arcs do not cross on their way up.

    Arcs to the left come first, near ones before far ones, then root arcs, then arcs to the right, far ones first.
    """
    at: list[list[tuple[int, int, int, int]]] = [[] for _ in drawing.words]
    for index, arc in enumerate(drawing.arcs):
        if arc.head == 0:
            at[arc.dependent - 1].append((1, 0, 0, index))
            continue
        left, right = sorted((arc.dependent, arc.head))
        at[right - 1].append((0, right - left, heights[index], index))
        at[left - 1].append((2, left - right, -heights[index], index))
    return [[end[3] for end in sorted(word)] for word in at]


def rise(drawing: Drawing, heights: Sequence[int], index: int) -> float:
    """Height of an arc in steps; a root's arrow starts above all arcs over its word, and above an earlier one there."""
    arc = drawing.arcs[index]
    if arc.head:
        return float(heights[index])
    over = [
        heights[i]
        for i, other in enumerate(drawing.arcs)
        if other.head and min(other.dependent, other.head) <= arc.dependent <= max(other.dependent, other.head)
    ]
    earlier = sum(other.head == 0 and other.dependent == arc.dependent for other in drawing.arcs[:index])
    return max(over, default=0) + 0.9 + 0.6 * earlier
