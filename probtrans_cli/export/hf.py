"""A model as a folder for Hugging Face's `transformers`: weights, config.json, and a tokenizer where that is exact."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from probtrans_cli import atomic, console
from probtrans_cli.data.vocabularies.base import SPECIALS, Enclosed, Vocabulary
from probtrans_cli.data.vocabularies.wordpiece import WordPieces
from probtrans_cli.data.vocabularies.wordpiece_files import OPTIONS_FILE, PIECES_FILE, TOKENIZER_FILE, AddedToken
from probtrans_cli.data.vocabularies.words import Words
from probtrans_cli.errors import UsageError
from probtrans_cli.export import ExportOptions
from probtrans_cli.export.measure import change_of_score, random_sentences, source_of
from probtrans_cli.hf import bert_of, register, write_bert, write_gpt2, write_probabilistic
from probtrans_cli.hf.gpt2 import ARCHITECTURE as GPT2
from probtrans_cli.hf.write import Architecture
from probtrans_cli.models.base import Inputs, Readout, Wants
from probtrans_cli.models.bayesian.weights import POSTERIOR, PRIOR
from probtrans_cli.models.outputs import BertWordOutput, SentenceOutput, SeveralOutputs
from probtrans_cli.tasks.base import OUTPUT
from probtrans_cli.trained.base import weights_of
from probtrans_cli.trained.model import Model

OWN, AS_BERT = "probabilistic", "transformer"
WRITERS = (OWN, AS_BERT)  # the kinds of models that have a form there: a class of ours, and BERT's
ANSWERS = (
    "answers: transformers computes scores of the ids that it is given; how parse divides texts, looks typographic "
    "marks up and decides answers is not part of the folder"
)


def write(model: Model, out: Path, options: ExportOptions) -> dict[str, Any]:
    """Write the folder; ``largest_difference`` is that of representations and scores to what `transformers` computes.

    Where `transformers` is not installed, the difference is null, and a line on stderr says so.
    """
    sentences = random_sentences(model, np.random.default_rng(0))
    architecture, notes = write_model(
        model, out, expand_shared=options.expand_shared, dtype=getattr(torch, options.dtype)
    )
    difference = difference_there(model, out, architecture, *sentences)
    for note in notes:
        console.log(note)
    if difference is None:
        console.log("transformers is not installed: what it makes of the folder was not measured")
    report = source_of(model, "hf", options.dtype) | {
        "architecture": architecture,
        "notes": notes,
        "largest_difference": difference,
        "bytes": (out / "model.safetensors").stat().st_size,
        **change_of_score(model, options),
        **({} if model.recipe.uncertain_weights is None else {"weights": "posterior means"}),
        "left_out": [ANSWERS],
        **options.about,
    }
    atomic.replace_text(out / "EXPORT.json", json.dumps(report, indent=1) + "\n")
    return report


def write_model(model: Model, folder: Path, *, expand_shared: bool, dtype: torch.dtype) -> tuple[str, list[str]]:
    """Write a model to a folder that must not exist, or be empty; return the class that opens it, and notes."""
    section: Any = model.recipe.model
    network, hint = model.network, "choose --format safetensors"
    # A word's row must be all that goes into the encoder for it.
    if network.features is not None:
        raise UsageError("not expressible in transformers: data.vocabulary.features", hint=hint)
    if network.common is not None:
        raise UsageError("not expressible in transformers: model.head_bias", hint=hint)
    if section.facts.is_causal and section.kind != AS_BERT:
        raise UsageError("not expressible in transformers: model.causal of a field", hint=hint)
    if network.start is not None:
        hint += ", or train with data.vocabulary.kind wordpiece, which has a [CLS]"
        raise UsageError("not expressible in transformers: task.representation: cls of a word of its own", hint=hint)
    if section.kind not in WRITERS:
        kinds = " and ".join(WRITERS)
        raise UsageError(f"not expressible in transformers: model.kind: {section.kind}", hint=f"only {kinds} are")
    architecture = architecture_of(model)
    tensors = _named(model, architecture)
    texts, notes = tokenizer_files(model.vocabulary, network.longest)
    if section.kind == OWN:
        write_probabilistic(section, tensors, folder, pad=model.vocabulary.PAD, texts=texts, dtype=dtype)
        return "ProbabilisticModel", [*notes, "the output layer is left out"]
    if section.facts.is_causal:
        never = [model.vocabulary.PAD, model.vocabulary.MASK]
        files = {**model.vocabulary_files, **texts}  # so that a training can start from it
        options: dict[str, Any] = {"pad": never[0], "never": never, "texts": files, "dtype": dtype}
        notes += write_gpt2(section, weights_of(network), folder, expand_shared=expand_shared, **options)
        return GPT2, notes
    if architecture == "BertModel":
        kind = model.recipe.task.kind
        notes.append(f"the output layer is left out: BERT has none for task.kind {kind} as it is here")
    if architecture == "BertForMaskedLM" and isinstance(network.output, SeveralOutputs):
        notes.append("an output of pairs is left out: BERT's tells, from its pooler, next texts from random ones")
    if model.recipe.uncertain_weights is not None:
        notes.append("the weights are the means of their posterior")
    base = {**(model.origin or {}), "pad_token_id": model.vocabulary.PAD}
    rows = model.task.output_rows.get(OUTPUT)
    if rows is not None and rows.names is not None and architecture.endswith("Classification"):
        base |= {"id2label": dict(enumerate(rows.names)), "label2id": {name: id for id, name in enumerate(rows.names)}}
    bert = bert_of(section, tensors, base, expand_shared=expand_shared)
    return architecture, notes + write_bert(bert, folder, architecture, texts=texts, dtype=dtype)


def architecture_of(model: Model) -> Architecture:
    """Return the class of `transformers` that computes what a transformer and its output layer do."""
    answers = model.task.answers.kind
    if answers == "words" and isinstance(model.network.words, BertWordOutput):
        # Pairs that are scored as BERT's are: 0 = the second text follows, 1 = it is a random one.
        paired = isinstance(getattr(model.network.output, "pair", None), SentenceOutput)
        has_next = paired and model.recipe.data.documents.pairs == "nsp" and model.recipe.model.facts.has_pooler
        return "BertForPreTraining" if has_next else "BertForMaskedLM"
    if answers == "tags":
        return "BertForTokenClassification"
    if answers == "class" and model.network.sentence == "cls" and model.recipe.model.facts.has_pooler:
        return "BertForSequenceClassification"
    return "BertModel"


def _named(model: Model, architecture: Architecture) -> dict[str, Tensor]:
    output: nn.Module = model.network.output
    parts = {}
    if isinstance(output, SeveralOutputs):
        parts = {"output.words.": "words."} if isinstance(model.network.words, BertWordOutput) else {}
        parts |= {"output.pair.": "pair."} if architecture == "BertForPreTraining" else {}
    elif isinstance(output, BertWordOutput):
        parts = {"output.": "words."}
    elif model.task.answers.kind in ("tags", "class") and isinstance(output, nn.Linear):
        parts = {"output.": "classifier."}
    tensors = {}
    for key, value in weights_of(model.network).items():
        if key.startswith((POSTERIOR, PRIOR)):
            continue  # BERT's weights are certain: these are the means
        if not key.startswith("output."):
            tensors[key] = value
        for ours, theirs in parts.items():
            if key.startswith(ours):
                tensors[theirs + key.removeprefix(ours)] = value
    return tensors


def tokenizer_files(vocabulary: Vocabulary, longest: int | None) -> tuple[Mapping[str, str], list[str]]:
    """Return the files of a tokenizer by name, as far as one divides text as the vocabulary does, and what is
    missing."""
    if isinstance(vocabulary, WordPieces):
        return vocabulary.files(longest), []
    if isinstance(vocabulary, Enclosed):
        return {}, ["no tokenizer is written: train with data.vocabulary.kind wordpiece to have one"]
    if not isinstance(vocabulary, Words):
        return {}, ["no tokenizer is written: transformers has none that divides words as data.vocabulary does"]
    pieces = [vocabulary.decode(id) for id in range(vocabulary.size)]
    files = {PIECES_FILE: "".join(f"{piece}\n" for piece in pieces)}
    changed = [name for name in ("lowercase", "digits") if getattr(vocabulary, name)]
    changed += ["punctuation"] if vocabulary.omits else []
    if changed:
        options = ", ".join(f"data.vocabulary.{name}" for name in changed)
        return files, [f"no tokenizer.json is written, only vocab.txt: {options} have no exact form there"]
    pad, unknown, mask = SPECIALS
    added = [{"id": id, "content": name, **AddedToken(name).flags} for id, name in enumerate(SPECIALS)]
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": {piece: id for id, piece in enumerate(pieces)}, "unk_token": unknown},
    }  # fmt: skip
    content: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast", "pad_token": pad, "unk_token": unknown, "mask_token": mask,
        "model_input_names": ["input_ids", "attention_mask"],
    }  # fmt: skip
    if longest is not None:
        content["model_max_length"] = longest
    files[TOKENIZER_FILE] = json.dumps(tokenizer, ensure_ascii=False) + "\n"
    files[OPTIONS_FILE] = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
    return files, ["tokenizer.json splits text at blanks: give it words, as the corpus has them"]


@torch.no_grad()
def difference_there(model: Model, folder: Path, architecture: str, ids: Tensor, mask: Tensor) -> float | None:
    """Return the largest difference between what `transformers` makes of a batch and what the model does, of the words'
    states, and of the output scores where the class has such; None without `transformers`."""
    try:
        import transformers  # noqa: PLC0415  (optional, and slow to import)
    except ImportError:
        return None
    register()
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    kind = transformers.AutoModel if architecture == "ProbabilisticModel" else getattr(transformers, architecture)
    theirs, report = kind.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not any(report.values()), f"{folder}: {report}"
    network = model.network.cpu()
    base = getattr(theirs.eval(), "bert", theirs)
    inputs, batch = Inputs(ids=ids, mask=mask), {"input_ids": ids, "attention_mask": mask.long()}
    if architecture == GPT2:
        behind = mask.clone()
        behind[:, 0] = False
        ours = network(inputs, Wants(tokens=behind, readout=Readout())).scores["words"]
        possible = ours.isfinite()
        return float((ours - theirs(**batch).logits[:, :-1][behind[:, 1:]])[possible].abs().max())
    states = network(inputs, Wants(states=True)).states
    assert states is not None, "they are wanted"
    pairs = [(states[mask], base(**batch).last_hidden_state[mask])]
    if architecture == "BertForPreTraining":
        outputs = theirs(**batch)
        ours = network(inputs, Wants(tokens=mask, sentence=True)).scores
        pairs += [(ours["words"], outputs.prediction_logits[mask]), (ours["pair"], outputs.seq_relationship_logits)]
    elif architecture == "BertForSequenceClassification":
        pairs.append((network(inputs, Wants(sentence=True)).scores["sentence"], theirs(**batch).logits))
    elif "For" in architecture:
        sentence = network.output.sentence is not None
        ours = network(inputs, Wants(tokens=mask, sentence=sentence)).scores
        pairs.append((ours["words"], theirs(**batch).logits[mask]))
    return max(float((left.float() - right).abs().max()) for left, right in pairs)
