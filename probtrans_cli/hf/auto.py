"""Classes with which `transformers` opens a probabilistic transformer: :func:`probtrans_cli.hf.register` names them to
its AutoConfig and AutoModel. Imports `transformers`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling

from probtrans_cli.hf.own import MODEL_TYPE
from probtrans_cli.models import build
from probtrans_cli.models.probabilistic.potentials import Rotary
from probtrans_cli.recipe.model import ProbabilisticTransformer


class ProbabilisticConfig(PretrainedConfig):  # type: ignore[no-untyped-call]
    """``model``: the ``model`` section of a recipe; ``vocab_size``: rows of its unary scores."""

    model_type = MODEL_TYPE

    def __init__(self, model: dict[str, Any] | None = None, vocab_size: int = 3, **others: Any) -> None:
        section = ProbabilisticTransformer.model_validate(model or {})
        self.model = section.model_dump(mode="json")
        self.vocab_size = vocab_size
        self.hidden_size, self.num_hidden_layers = section.labels, section.iterations
        self.num_attention_heads = section.channels
        super().__init__(**others)

    @property
    def section(self) -> ProbabilisticTransformer:
        """The ``model`` section of a recipe."""
        return ProbabilisticTransformer.model_validate(self.model)


class ProbabilisticModel(PreTrainedModel):  # type: ignore[no-untyped-call]
    """A probabilistic transformer (Wu & Tu 2023). Its attentions are the head marginals, one tensor an iteration:
    ``[sentence, channel, word, head]``, the heads being the words, then the root and global features where it has some.
    """

    config_class = ProbabilisticConfig
    main_input_name = "input_ids"

    def __init__(self, config: ProbabilisticConfig) -> None:
        super().__init__(config)
        self.unary: nn.Module = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.encoder = build(config.section)
        self.post_init()  # type: ignore[no-untyped-call]

    def _init_weights(self, module: nn.Module) -> None:
        # Models come from files. What is in none is made anew: the space of a model being read is not filled.
        if isinstance(module, Rotary):
            planes = torch.arange(0, self.config.section.decomposition.rank, 2, dtype=torch.float64)
            base = self.config.section.decomposition.base
            module.frequency = base ** (-planes / self.config.section.decomposition.rank)

    def get_input_embeddings(self) -> nn.Module:
        """The unary scores."""
        return self.unary

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the unary scores."""
        self.unary = value

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
    ) -> BaseModelOutputWithPooling | tuple[Any, ...]:
        """Label scores of the words, ``last_hidden_state``, those of the root, ``pooler_output``, and head marginals,
        ``attentions``, where they are asked for. Without a mask, what is not padding is a word."""
        mask = input_ids != self.config.pad_token_id if attention_mask is None else attention_mask.bool()
        arcs = self.config.output_attentions if output_attentions is None else output_attentions
        encoded = self.encoder(self.unary(input_ids), mask, arcs=bool(arcs))
        found = BaseModelOutputWithPooling(
            last_hidden_state=encoded.states,
            pooler_output=encoded.sentence,
            attentions=None if encoded.arcs is None else encoded.arcs.unbind(1),
        )
        return found.to_tuple() if return_dict is False else found


def register() -> None:
    """Let AutoConfig and AutoModel know the classes."""
    AutoConfig.register(MODEL_TYPE, ProbabilisticConfig, exist_ok=True)
    AutoModel.register(ProbabilisticConfig, ProbabilisticModel, exist_ok=True)
