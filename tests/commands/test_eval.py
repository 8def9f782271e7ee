"""`eval` and `export` of trained runs, and the pipelines that must work."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from support import Invoke, Stdin, refused

SENTENCE = "the old farmers near the river feed three hungry goats ."


def test_eval_gives_the_scores_of_training_again(here: Path, invoke: Invoke) -> None:
    stored = json.loads((here / "runs/tiny/checkpoints/best/eval.json").read_text("utf-8"))
    for split in ("dev", "test"):
        scores = invoke("eval", "runs/tiny", "--split", split, "--baselines", "--json").scores
        assert scores == stored[split]
        assert (here / f"runs/tiny/checkpoints/eval-{split}.json").exists()
    assert invoke("eval", "runs/tiny", "test.conllu", "--baselines", "--json").scores == stored["test"]


def test_conllu_is_known_by_its_content_where_no_name_tells(here: Path, invoke: Invoke, stdin: Stdin) -> None:
    """Standard input, a pipe, which can be read once, and a file of another ending."""
    stored = json.loads((here / "runs/tagger/checkpoints/best/eval.json").read_text("utf-8"))["test"]
    content = (here / "test.conllu").read_bytes()
    stdin(content)
    assert invoke("eval", "runs/tagger", "-", "--json").scores == stored
    (here / "gold.txt").write_bytes(content)
    assert invoke("eval", "runs/tagger", "gold.txt", "--json").scores == stored
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: (here / "pipe").write_bytes(content), daemon=True)
    writer.start()
    assert invoke("eval", "runs/tagger", "pipe", "--json").scores == stored
    writer.join()
    Path("pipe").unlink()
    refused(invoke("eval", "runs/tagger", "/dev/null"), 3, "/dev/null: there is no sentence in it")


def test_a_sentence_of_a_file_that_is_too_long_is_refused(here: Path, invoke: Invoke) -> None:
    """Time and memory grow with the square of its length: the bound is that of `parse`, and can be raised."""
    words = "".join(f"{i}\tword\t_\t_\tNN\t_\t0\t_\t_\t_\n" for i in range(1, 2002)) + "\n"
    (here / "long.conllu").write_text((here / "test.conllu").read_text("utf-8") + words, "utf-8")
    refused(invoke("eval", "runs/tagger", "long.conllu"), 3, ": a sentence of 2,001 words, more than 2,000", "2001")
    allowed = invoke("eval", "runs/tagger", "long.conllu", "--longest", "2001", "--json")
    assert allowed.scores["accuracy"] > 0.0
    # The recipe's own files have the recipe's own bound.
    assert invoke("eval", "runs/tagger", "--split", "test", "--longest", "2").code == 0
    refused(invoke("eval", "runs/tagger", "test.conllu", "--longest", "2"), 3, "more than 2")


def test_where_there_are_no_floors_that_is_said(here: Path, invoke: Invoke) -> None:
    (here / "plain.txt").write_text(SENTENCE + "\n", "utf-8")
    ran = invoke("eval", "runs/tiny", "plain.txt", "--baselines", "--masks", "1", "--json")
    assert "trees" not in ran.scores
    assert "--baselines: no trees are scored here, and perplexity has no baselines" in ran.err
    assert "--baselines" not in invoke("eval", "runs/tiny", "--baselines", "--masks", "1", "--json").err


def test_gold_heads_that_are_no_tree_are_scored_and_told_of(here: Path, invoke: Invoke) -> None:
    words = "".join(f"{i}\tw\t_\t_\t_\t_\t{{}}\t_\t_\t_\n" for i in (1, 2)) + "\n"
    (here / "odd.conllu").write_text(words.format(0, 1) + words.format(0, 0) + words.format(2, 1), "utf-8")
    ran = invoke("eval", "runs/tiny", "odd.conllu", "--masks", "1", "--json")
    assert ran.scores["trees"]["with_punct"]["all"]["sentences"] == 3
    told = "odd.conllu, sentence 2 of those scored: the gold heads are not a tree with one root, the first of 2"
    assert ran.err.count(told) == 1
    assert "not a tree" not in invoke("eval", "runs/tiny", "--masks", "1").err


def test_eval_of_every_name_of_a_checkpoint(here: Path, invoke: Invoke) -> None:
    last = (here / "runs/tiny/checkpoints/last").resolve()
    step = int(last.name.removeprefix("step-"))
    for name in ("runs/tiny@last", f"runs/tiny@{step}", "runs/tiny/checkpoints/last", str(last)):
        assert invoke("eval", name, "--masks", "1", "--json").json["step"] == step


def test_eval_options(here: Path, invoke: Invoke) -> None:
    base = ["eval", "runs/tiny", "--json"]
    every = invoke(*base, "--channel", "all").scores
    assert every["channels"].keys() == {"0", "1", "mean"}
    for channel in ("0", "1", "mean"):
        trees = invoke(*base, "--channel", channel).scores["trees"]
        assert str(trees["reading"]["channel"]) == channel
        assert trees["no_punct"] == every["channels"][channel]["no_punct"]
    assert invoke(*base, "--iteration", "1").scores["trees"]["reading"]["iteration"] == 1
    for decoder in ("argmax", "mst", "eisner"):
        assert invoke(*base, "--decode", decoder).scores["trees"]["reading"]["decoder"] == decoder
    assert invoke(*base, "--masks", "7").scores["masks"] == 7
    assert "floors" not in invoke(*base).scores["trees"]


def test_eval_of_a_tagger_and_of_plain_text(here: Path, invoke: Invoke) -> None:
    accuracy = invoke("eval", "runs/tagger", "--json").scores["accuracy"]
    assert 0.05 < accuracy <= 1
    assert f"{100 * accuracy:.2f} %" in invoke("eval", "runs/tagger").out
    (here / "plain.txt").write_text("the farmer feeds the goat\nthe goat sees the farmer\n", encoding="utf-8")
    assert invoke("eval", "runs/tiny", "plain.txt", "--json").scores["perplexity"] > 1
    refused(invoke("eval", "runs/tagger", "plain.txt"), 3, "plain.txt")


def test_an_export_parses_and_scores_like_the_run(copied: Path, invoke: Invoke) -> None:
    report = invoke("export", "runs/tiny", "out", "--json").json
    assert report["largest_difference"] == 0.0
    assert json.loads((copied / "out/EXPORT.json").read_text())["largest_difference"] == 0.0
    assert not (copied / "out/training").exists()
    for arguments in (["-f", "conllu"], ["-f", "jsonl", "--channel", "all"], ["-f", "tree", "--prob"]):
        assert invoke("parse", "out", "test.conllu", *arguments) == invoke(
            "parse", "runs/tiny", "test.conllu", *arguments
        )
    of_run, of_export = (invoke("eval", name, "--json").scores for name in ("runs/tiny", "out"))
    assert of_run == of_export
    refused(invoke("export", "runs/tiny", "out"), 2, "out")
    half = invoke("export", "out", "half", "--dtype", "bfloat16", "--json").json
    assert half["bytes"] == report["bytes"] / 2
    assert 0.0 < half["largest_difference"] < 1.0
    assert invoke("eval", "half", "--json").code == 0


# --- pipelines --------------------------------------------------------------------------------------------------------


def test_a_printed_recipe_is_a_recipe(fresh: Path, invoke: Invoke) -> None:
    printed = invoke("train", "tiny.yaml", "--print", "optim.lr=3e-4").ok
    assert "lr: 0.0003" in printed.out
    (fresh / "mine.yaml").write_text(printed.out, encoding="utf-8")
    ran = invoke("train", "mine.yaml", "--dry-run").ok
    assert "works" in ran.out


def test_output_file_is_no_input(copied: Path, invoke: Invoke) -> None:
    text = copied / "same.txt"
    text.write_text("the farmers fold a shirt\n", encoding="utf-8")
    refused(invoke("parse", "runs/tiny", str(text), "-o", str(text)), 2, "it is an input", "another file")
    refused(invoke("parse", "runs/tiny", "no-such-file.txt", "-o", str(text)), 3, "no-such-file.txt")
    assert text.read_text(encoding="utf-8") == "the farmers fold a shirt\n"


def test_trees_are_scored_where_nothing_can_be_hidden(copied: Path, invoke: Invoke) -> None:
    rows = "1\tqwx\t_\tX\t_\t_\t2\t_\t_\t_\n2\tzzx\t_\tX\t_\t_\t0\t_\t_\t_\n\n"
    (copied / "strange.conllu").write_text(rows, encoding="utf-8")
    ran = invoke("eval", "runs/tiny", "strange.conllu", "--json")
    assert ran.json["scores"]["strange.conllu"].keys() == {"trees"}
    assert "strange.conllu: no perplexity: there is no word to hide" in ran.err
    (copied / "strange.txt").write_text("qwx zzx\n", encoding="utf-8")
    refused(invoke("eval", "runs/tiny", "strange.txt"), 3, "strange.txt: there is no word to hide")
    for split in ("dev", "extra"):
        ran = invoke("train", "tiny.yaml", "--run", "runs/new", f"data.{split}=strange.conllu")
        refused(ran, 3, f"data.{split}: there is no word to hide")
        assert "epoch" not in ran.err


def test_choosing_how_trees_are_read(copied: Path, invoke: Invoke) -> None:
    """The choice is the best of all; it is stored, and what is given is kept. The test set chooses nothing."""
    refused(invoke("eval", "runs/tiny", "--choose"), 2, "--split dev --choose")
    refused(invoke("eval", "runs/tiny", "--split", "dev", "--choose", "--channel", "all"), 2, "--channel all")
    (copied / "words.txt").write_text("goats sleep\n", encoding="utf-8")
    refused(invoke("eval", "runs/tiny", "words.txt", "--choose"), 3, "no gold trees")

    refused(invoke("eval", "runs/tiny", "./test.conllu", "--choose"), 2, "test set")
    all_named = ["--channel", "0", "--iteration", "1", "--decode", "mst"]
    refused(invoke("eval", "runs/tiny", "--split", "dev", "--choose", *all_named), 2, "nothing to choose")

    def uuas(*options: str) -> float:
        found = invoke("eval", "runs/tiny", "--split", "dev", "--json", *options).json["scores"]["dev"]["trees"]
        return float(found["no_punct"]["all"]["uuas"])

    best = max(
        uuas("--channel", channel, "--iteration", iteration, "--decode", decoder)
        for channel in ("0", "1", "mean")
        for iteration in ("1", "2")
        for decoder in ("mst", "eisner")
    )
    assert uuas("--choose") == uuas() == best
    given = invoke("eval", "runs/tiny", "--split", "dev", "--choose", "--channel", "1", "--decode", "mst", "--json")
    stored = json.loads((copied / "runs/tiny/checkpoints/best/config.json").read_text("utf-8"))["trees"]
    assert stored == given.json["scores"]["dev"]["trees"]["reading"]
    assert (stored["channel"], stored["decoder"], stored["chosen_on"]) == (1, "mst", "dev")
    assert invoke("parse", "runs/tiny", "words.txt").code == 0  # the checksums are right


def test_resuming_on_other_data_is_refused(copied: Path, invoke: Invoke) -> None:
    source = copied / "grow.conllu"
    source.write_text((copied / "train.conllu").read_text(encoding="utf-8"), encoding="utf-8")
    command = ["train", "tiny.yaml", "name=grow", "data.train=grow.conllu"]
    assert invoke(*command).code == 0
    source.write_text((copied / "dev.conllu").read_text(encoding="utf-8"), encoding="utf-8")
    refused(invoke("train", "runs/grow", "--resume"), 3, "corpora are not those")


def test_kernels_that_the_machine_has_not_are_told(fresh: Path, invoke: Invoke) -> None:
    ran = invoke("train", "tiny.yaml", "runtime.messages=fused", "runtime.device=cpu", "train.epochs=1")
    assert (fresh / "runs/tiny").exists(), ran.err
    assert "messages: as fast ones, as only a GPU has the kernels" in ran.err
