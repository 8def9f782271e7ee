"""Score reports as text for people; the same numbers as the JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from probtrans_cli.console import listed, render, wrapped
from probtrans_cli.data.files import display_name
from probtrans_cli.recipe.task import TASKS
from probtrans_cli.text import columns, counted, visible

SHARES = (
    "unknown_rate", "swapped", "undirected", "labels", "form", "inner", "outer", "whole",
    "sentences_without_tuple", "tuple_overlap",
)  # fmt: skip
MEASURES = frozenset(
    {
        *("accuracy", "f1", "precision", "recall", "auc", "exact"),
        *("uas", "uuas", "las", "clas", "mlas", "upos", "xpos", "ufeats"),
    }
)
"""Shares, also as a part of a longer name: of known words, of one type of entity, of a baseline."""
CONVENTIONS = {"no_punct": "punctuation removed", "with_punct": "all tokens"}
TREE_COLUMNS = (("all", "uas"), ("all", "uuas"), ("all", "swapped"), ("10", "uas"), ("10", "uuas"))
BASELINES = {
    "next_word": "next word",
    "previous_word": "previous word",
    "random_tree": "random tree",
    "nearest_rarer": "nearest rarer word",
    "untrained_bias": "untrained bias",
}
"""Trees that need no model, by their keys in reports."""

UNCERTAINTY_ROWS = {
    "nll": "nll: loss of the right answer",
    "brier": "brier",
    "ece": "ece: distance of confidence and accuracy",
    "ece_floor": "  of calibrated answers",
    "ece_width": "  with bins of equal width",
    "aurc": "aurc: errors among the most confident",
    "error_auroc": "errors told by 1 - probability",
    "error_auroc_mi": "  by the mutual information",
    "error_auroc_latent_labels": "  by the latent label's entropy",
    "error_auroc_heads": "  by the heads' entropy",
    "arc_error_auroc": "wrong arcs told by the head's entropy",
    "entropy": "entropy",
    "expected_entropy": "  expected: the data's part",
    "mutual_information": "  mutual information: the model's part",
    "latent_label_entropy": "  of the latent label",
    "head_entropy": "  of the heads",
}
CHOICES = {
    "heads": "heads of words",
    "relations": "relations, given the gold head",
    "upos": "UPOS",
    "xpos": "XPOS",
    "feats": "FEATS",
}
"""What is chosen beside, or in place of, a task's one answer, by its key in `uncertainty`."""
OOD_ROWS = {
    "ood_auroc": "other text told by the entropy",
    "ood_auroc_mi": "  by the mutual information",
    "entropy": "entropy there",
    "mutual_information": "  mutual information there",
}


def is_share(name: str) -> bool:
    return name in SHARES or not MEASURES.isdisjoint(name.split("_"))


def shown(name: str, value: float | None) -> str:
    """Format a score: shares in percent, other numbers with four digits."""
    if value is None:
        return "-"
    if is_share(name):
        return f"{100 * value:.2f} %"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:,.4g}"


def flattened(scores: dict[str, Any]) -> dict[str, float]:
    """Return the numbers of a score report by name; of induced trees, UAS and UUAS without punctuation, all lengths."""
    flat = {name: float(value) for name, value in scores.items() if isinstance(value, int | float)}
    for part in ("uncertainty", "ood"):
        numbers = scores.get(part, {}).items()
        flat = {name: float(value) for name, value in numbers if isinstance(value, int | float)} | flat
        for choice in CHOICES.keys() & scores.get(part, {}).keys():
            of_choice = scores[part][choice].items()
            flat |= {f"{choice}_{name}": float(value) for name, value in of_choice if isinstance(value, int | float)}
    trees = scores.get("trees", {})
    main = trees.get("no_punct") or trees.get("with_punct")
    if main:
        flat = {name: float(main["all"][name]) for name in ("uas", "uuas") if main["all"][name] is not None} | flat
    return flat


def over_seeds(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return mean and sample s.d. of every score over runs: on test (else dev), and on ``extra``."""
    split = "test" if all("test" in run for run in runs) else "dev"
    extra = mean_and_sd(runs, "extra") if all("extra" in run for run in runs) else None
    return {"split": split, **mean_and_sd(runs, split), **({} if extra is None else {"extra": extra})}


def mean_and_sd(runs: Sequence[dict[str, Any]], split: str) -> dict[str, Any]:
    """Return mean and sample s.d. of every score of a split over runs; the s.d. of a single run is None."""
    flat = [flattened(run.get(split, {})) for run in runs]
    names = [name for name in flat[0] if all(name in scores for scores in flat)]
    mean = {name: sum(scores[name] for scores in flat) / len(flat) for name in names}
    several = len(flat) > 1
    spread = {
        name: math.sqrt(sum((scores[name] - mean[name]) ** 2 for scores in flat) / (len(flat) - 1)) if several else None
        for name in names
    }
    return {"mean": mean, "sd": spread}


def split_report(name: str, scores: dict[str, Any]) -> str:
    """Write the scores of one split: the task's, then trees and baselines."""
    numbers = {key: value for key, value in scores.items() if isinstance(value, int | float)}
    error = numbers.pop("perplexity_se", None)
    masks = numbers.pop("masks", None)
    parts = []
    for key, value in numbers.items():
        spread = ""
        if key == "perplexity" and error is not None:
            spread = f" ± {error:.2g} (s.e. over {'texts' if masks is None else f'{masks:.0f} mask draws'})"
        elif interval := scores.get(f"{key}_interval"):
            spread = f" (95 % interval {_range(interval)})"
        parts.append(f"{key} {shown(key, value)}{spread}")
    column = f", column {scores['column']}" if "column" in scores else ""
    text = listed(parts, f"{name}{column}: ").rstrip() + "\n"
    text += uncertainty_report(name, scores["uncertainty"], scores.get("ood")) if "uncertainty" in scores else ""
    if "cases" in scores:
        rows = [[kind, shown("exact", scores["cases"][kind])] for kind in sorted(scores["cases"])]
        text += render(["kind of example", "exact"], rows)
    if "phenomena" in scores:
        rows = [
            [
                visible(kind),
                f"{row['pairs']:,}",
                shown("accuracy", row["accuracy"]),
                _range(row.get("accuracy_interval")),
            ]
            for kind, row in scores["phenomena"].items()
        ]
        text += render(["phenomenon", "pairs", "accuracy", "95 % interval"], rows)
    text += tree_report(scores["trees"]) if "trees" in scores else ""
    if "channels" in scores:
        rows = []
        for channel, trees in scores["channels"].items():  # in the first convention that was scored
            counts = next(trees[convention] for convention in CONVENTIONS if convention in trees)["all"]
            rows.append([f"channel {channel}", shown("uas", counts["uas"]), shown("uuas", counts["uuas"])])
        text += render(["", "UAS", "UUAS"], rows, title="every channel, all lengths")
    return text


def uncertainty_report(name: str, scores: Mapping[str, Any], ood: Mapping[str, Any] | None = None) -> str:
    """Return the tables of a split's `uncertainty`, and of its `ood`."""
    parts = {"answers": scores} if "number" in scores else {}
    parts |= {title: scores[key] for key, title in CHOICES.items() if key in scores}
    text = ""
    for answers, of_part in parts.items():
        tempered = next((key for key in ("with_temperature", "without_temperature") if key in of_part), None)
        text += f"{visible(name)}: uncertainty of {of_part['number']:,} {answers}"
        numbers = [of_part]
        names = ["", ""]
        if tempered is not None:
            text += f"; temperature {of_part['temperature']:.4g}"
            numbers.append(of_part[tempered])
            names = ["", "as predicted", f"{tempered.removesuffix('_temperature')} temperature"]
        rows = [
            [label, *(_four_digits(of_kind[key]) if key in of_kind else "" for of_kind in numbers)]
            for key, label in UNCERTAINTY_ROWS.items()
            if key in of_part
        ]
        text += f"\n{render(names, rows)}"
    if ood is not None:
        ood_rows = [[label, _four_digits(ood[key])] for key, label in OOD_ROWS.items() if key in ood]
        text += f"{visible(name)} beside {counted(ood['sentences'], 'sentence')} of {visible(ood['file'])}\n"
        text += render(["", ""], ood_rows)
    return text


def _four_digits(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def tree_report(trees: dict[str, Any]) -> str:
    """Write attachment scores per convention and length with the model's intervals, the baselines below them."""
    text, title = "", "trees"
    if reading := trees.get("reading"):  # of a model, and not of a file
        iteration = "last iteration" if reading["iteration"] == -1 else f"iteration {reading['iteration']}"
        chosen = f", chosen on {reading['chosen_on']}" if reading.get("chosen_on") else ""
        title += f" of channel {reading['channel']}{chosen}, {iteration}, {reading['decoder']}"
    # Without punctuation, both conventions have the same numbers.
    alike = "no_punct" in trees and trees["no_punct"]["all"]["words"] == trees["with_punct"]["all"]["words"]
    for convention, description in CONVENTIONS.items():
        if convention not in trees or (convention == "with_punct" and alike):
            continue
        scores = trees[convention]
        counts = scores["all"]
        intervals = [_range(scores[length].get(f"{score}_interval"), "–") for length, score in TREE_COLUMNS]
        floors = trees.get("floors", {})
        named = {"model" if reading else "file": scores}
        named |= {f"  {name}": floors[key][convention] for key, name in BASELINES.items() if key in floors}
        rows = [
            [name, *(shown(score, of_trees[length][score]) for length, score in TREE_COLUMNS)]
            for name, of_trees in named.items()
        ]
        rows.insert(1, ["  95 % interval", *intervals])
        if floors:
            rows.insert(2, ["baselines", *[""] * len(TREE_COLUMNS)])
        words = "no punctuation in them" if alike else description
        size = f"{counted(counts['sentences'], 'sentence')}, {counted(counts['words'], 'word')}"
        text += f"{title}\n{size}, {words}\n"
        text += render(["", "UAS", "UUAS", "swapped", "UAS ≤10", "UUAS ≤10"], rows)
        title = "the same trees"
    return text + (relation_report(trees) if "relations" in trees else "")


def relation_report(trees: dict[str, Any]) -> str:
    """Write the scores of `eval --relations`, in the first convention that was scored: a row a gold relation.

    First the trees that were read beside the best channel and baseline, then recall and precision of every channel.
    """
    convention = next(name for name in CONVENTIONS if name in trees["relations"])
    relations = trees["relations"][convention]["relations"]
    read = str(trees["reading"]["channel"])
    rows = []
    for relation, row in relations.items():
        best = row["best"]
        cells = [shown(share, row[share][read]) for share in ("recall", "undirected")]
        cells += [f"channel {best['channel']}"]
        cells += [shown(share, row[share][best["channel"]]) for share in ("recall", "precision")]
        cells += [BASELINES[best["floor"]], shown("recall", row["floors"][best["floor"]])]
        cells += [f"{100 * best['above_floor']:+.1f}", _range(best["above_floor_interval"])]
        rows.append([visible(relation), f"{row['words']:,}", *cells])
    headings = ["", "words", f"channel {read}", "undirected", "best", "recall", "precision", "best baseline", "recall"]
    text = "gold relations: what the trees above recall\nand what the best channel does beside the best baseline\n"
    text += render([*headings, "above it", "95 % interval"], rows)
    for share, meaning in (
        ("recall", "of the words with the relation, those with the right head, in percent; * the best channel"),
        ("precision", "of all arcs of the channel, those that are right and of this relation, in percent"),
    ):
        text += wrapped(f"{share}: {meaning}") + "\n"
        digits, lines = (0 if share == "recall" else 1), []
        for relation, row in relations.items():
            best = row["best"]["channel"]
            cells = [f"{100 * x:.{digits}f}{'*' if channel == best else ' '}" for channel, x in row[share].items()]
            lines.append([visible(relation), *cells])
        text += render(["channel", *(f"{channel} " for channel in next(iter(relations.values()))["recall"])], lines)
    return text


def _range(interval: Sequence[float] | None, between: str = " to ") -> str:
    return "" if interval is None else between.join(f"{100 * end:.1f}" for end in interval)


def training_report(result: dict[str, Any]) -> str:
    """Write what `train` prints at the end, and what to do next."""
    if result.get("dry_run"):
        return f"{result['name']}: works; about {result['estimated_seconds']:,.0f} s for the whole training\n"
    if "seeds" in result and "mean" not in result:
        return "".join(training_report(run) for run in result["runs"])
    if "seeds" in result:
        title = f"{result['name']}, seeds {','.join(map(str, result['seeds']))}"
        tables = {result["split"]: result, **({"extra": result["extra"]} if "extra" in result else {})}
        text = ""
        for split, over in tables.items():
            spreads = ["" if over["sd"][name] is None else shown(name, over["sd"][name]) for name in over["mean"]]
            rows = [
                [name, shown(name, mean), sd] for (name, mean), sd in zip(over["mean"].items(), spreads, strict=True)
            ]
            text += render([split, "mean", "s.d."], rows, title=title)
        return text
    text = "".join(split_report(split, result[split]) for split in ("train", "dev", "test", "extra") if split in result)
    for key, name in (("temperature", "temperature"), ("arc_temperature", "temperature of arcs")):
        if fitted := result.get(key):
            text += f"{name} {fitted['value']:.4g}: dev nll {shown('nll', fitted['nll'])} without it, "
            text += f"{shown('nll', fitted['nll_tempered'])} with it\n"
    text += f"\nrun: {result['run']}, best step {result['step']}, {result['seconds']:,.0f} s of training\n"
    text += f"to look at: {result['run']}/report.html\n"
    # Every word of it is known to the quick start, and to most English vocabularies.
    example = "two farmers fold a shirt"
    quick = result["name"] == "quickstart"
    command = f'echo "{example}" | probtrans parse' if quick else "probtrans parse"
    command += f" {result['run']}" + ("" if quick else " YOUR-TEXT.txt")
    return text + f"next: {command} {TASKS[result['task']].shown_by}\n"


def evaluation_report(result: dict[str, Any]) -> str:
    """Write what `eval` prints."""
    text = " + ".join(result.get("members", [result["checkpoint"]]))
    text += (f": {result['way']}" if "way" in result else "") + "\n"
    text += "".join(split_report(display_name(name), scores) for name, scores in result["scores"].items() if scores)
    return text + (label_report(result) if "labels" in result else "")


def label_report(result: dict[str, Any]) -> str:
    """Write the result of `eval --labels`: a line a label, then the pairs of every channel and bucket."""
    labels = result["labels"]
    about = [column for column in ("upos", "words", "xpos") if any(column in label for label in labels)]
    text = "\nlatent labels, by expected share of the words, and what goes with each, with its\n"
    text += f"share of the label: {' | '.join(about)}\n\nlabel   share\n"
    for label in labels:
        name = f"{label['label']:>5}  {100 * label['share']:4.1f} %"
        parts: list[str] = []
        for column in about:
            parts += ["|"] if parts else []
            key = "word" if column == "words" else "tag"
            parts += [f"{visible(entry[key])} {entry['share']:.2f}".replace(" 0.", " .") for entry in label[column]]
        text += name + listed(parts, " " * 15, between="  ", indent="").removeprefix(" " * len(name)) + "\n"
    if result["unused_labels"]:
        unused = result["unused_labels"]
        numbers = " ".join(map(str, unused))
        text += wrapped(f"not used (less than one word in all): {len(unused)} labels: {numbers}") + "\n"
    names = {label["label"]: " ".join(visible(word["word"]) for word in label["words"][:3]) for label in labels}
    iteration = next((group["iteration"] for group in result["pairs"] if "iteration" in group), None)
    whose = "" if iteration is None else f" of iteration {iteration}"
    heading = f"strongest pairs in the ternary scores T{whose}: score, label of the word, label of its head"
    text += f"\n{wrapped(heading)}\n"
    for group in result["pairs"]:
        text += f"\nchannel {group['channel']}, {group['bucket']}\n"
        sides = [[f"{pair[side]:>3} ({names[pair[side]]})" for side in ("child", "head")] for pair in group["pairs"]]
        room = max((columns(child) for child, _ in sides), default=0)
        for pair, (child, head) in zip(group["pairs"], sides, strict=True):
            line = f"{pair['score']:+8.2f}  {child}{' ' * (room - columns(child))}  {head}"
            text += wrapped(line) + "\n"
    return text
