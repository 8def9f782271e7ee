"""Every key is needed: a recipe sets it, or a reason stands here. Keys that were removed are read, or refused by name.

``PYTHONPATH=tests python -m tests.recipe.test_keys`` prints the keys that no recipe sets and that have no reason here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml
from small_recipes import SMALL, read, refused
from support import ROOT

from probtrans_cli.recipe.faults import REMOVED
from probtrans_cli.recipe.reference import every_key, kinds

KEPT = {
    "BERT": """model.activation model.attention_dropout model.embedding_norm model.norm_eps model.pooler model.segments
        model.init_strict data.documents.seed data.documents.short task.pair_weight task.tie_decoder task.mlm.count
        task.mlm.dynamic task.mlm.eval_seed task.mlm.loss_positions task.mlm.never task.mlm.whole_word""",
    "decoders of others": """model.label_variables task.score_first task.word_bias""",
    "the paper": """model.damping.heads model.globals.parameterization model.message_weight.features model.output
        model.root.decomposition.rank model.schedule model.symmetric model.tie_kv model.tie_qo optim.schedule.min_lr""",
    "distributions over weights": """model.bayes.family model.bayes.layers model.bayes.norms model.bayes.objective
        model.bayes.predict.kind model.bayes.predict.samples model.bayes.predict.state model.bayes.prior.kind
        model.bayes.prior.std model.bayes.sigma_lr model.bayes.start model.bayes.words optim.ivon.betas
        optim.ivon.kl_weight optim.ivon.predict.kind optim.ivon.predict.samples optim.ivon.predict.state
        predict.temperature""",
    "SentenceAx and OpenIE6": """data.grid.extra_words data.grid.fix_lengths data.grid.rows task.confidence
        task.constraint_only task.constraint_start_epoch task.constraints.ec task.constraints.hvc task.constraints.hve
        task.constraints.posc task.decision_bias task.early_exit task.label_feedback task.location_time task.merge_dim
        task.none_weight task.tagger task.unbreakable task.unbreakable_window task.word_repr""",
    "files of users": """data.columns.comments data.columns.scheme data.columns.separator data.columns.strict
        data.jsonl.label data.jsonl.text data.table.columns data.table.header data.table.quoting data.prepared
        data.shard_sentences data.select.seed data.vocabulary.algorithm data.vocabulary.max_size
        data.vocabulary.features.ngrams""",
    "machines": """runtime.compile runtime.device runtime.messages runtime.timeout
        train.accumulate save.every_steps save.keep log.tensorboard""",
    "Dozat and Manning": """task.arc_size task.dropout task.heads task.relation_size task.weights.arcs
        task.weights.tags""",
    "pages that show their use": """data.raw eval.iteration eval.trees model.base_rank model.base_width model.factors
        model.head_bias.rarer model.init_from optim.betas optim.schedule.final task.mlm task.valid
        task.word_weight train.freeze train.probe""",
}


def paths(section: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of a recipe's keys; the two encoders of a stack have the keys of `model`."""
    for key, value in section.items():
        yield (*above, key)
        stacked = above == ("model",) and key in ("lower", "upper")
        yield from paths(value, above if stacked else (*above, key)) if isinstance(value, dict) else ()


def unused_keys() -> set[str]:
    recipes = [yaml.safe_load(path.read_text("utf-8")) for path in (ROOT / "recipes").glob("*.yaml")]
    used = {path for recipe in recipes for path in paths(recipe)}
    return {".".join(path) for path, schema in every_key() if path not in used and not kinds(schema)}


def test_a_key_that_no_recipe_sets_has_a_reason() -> None:
    assert unused_keys() <= set(" ".join(KEPT.values()).split()), "set it in a recipe, name the reason, or remove it"


def test_removed_keys_are_read_where_they_change_nothing_and_refused_by_name_elsewhere() -> None:
    keys = {".".join(path) for path, _ in every_key()}
    relative = "model={kind: transformer, bayes: {}, positions: {kind: relative}}"
    for key, (neutral, advice) in REMOVED.items():
        assert key not in keys
        start = [relative] if key.startswith("model.") else []
        assert read(SMALL, *start, f"{key}={neutral}") == read(SMALL, *start)
        assert refused(SMALL, *start, f"{key}=7") == [f"override '{key}=7': {key}: this key was removed; {advice}"]
    start = ["model={kind: stacked, lower: {kind: transformer, positions: {kind: relative}}}"]
    below = "model.lower.positions.per_head"
    assert read(SMALL, *start, f"{below}=false") == read(SMALL, *start)
    assert refused(SMALL, *start, f"{below}=true")[0].startswith(
        f"override '{below}=true': {below}: this key was removed;"
    )
    text = SMALL + "runtime:\n  graphs: true\n"
    assert refused(text)[0].startswith("r.yaml:9:3: runtime.graphs: this key was removed; ")


if __name__ == "__main__":
    print("\n".join(sorted(unused_keys() - set(" ".join(KEPT.values()).split()))))
