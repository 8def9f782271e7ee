"""Classes with which `transformers` opens a probabilistic transformer: :func:`probtrans_cli.hf.register` names them to
its AutoConfig and AutoModel. Imports `transformers`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling

from probtrans_cli.hf.write import MODEL_TYPE
from probtrans_cli.models import build
from probtrans_cli.models.base import Words
from probtrans_cli.models.probabilistic.potentials import Rotary
from probtrans_cli.recipe.model import ProbabilisticTransformer


class ProbabilisticConfig(PretrainedConfig):  # type: ignore[no-untyped-call]
    """``model``: the ``model`` section of a recipe; ``vocab_size``: rows of its unary scores."""

    model_type = MODEL_TYPE

    def __init__(self, model: dict[str, Any] | None = None, vocab_size: int = 3, **options: Any) -> None:
        section = ProbabilisticTransformer.model_validate(model or {})
        self.model = section.model_dump(mode="json")
        self.vocab_size = vocab_size
        self.hidden_size, self.num_hidden_layers = section.labels, section.iterations
        self.num_attention_heads = section.channels
        super().__init__(**options)

    @property
    def section(self) -> ProbabilisticTransformer:
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
        # Models come from files. Frequencies are in no file, and transformers leaves a model's buffers unfilled.
        if isinstance(module, Rotary):
            rotary = self.config.section.decomposition
            planes = torch.arange(0, rotary.rank, 2, dtype=torch.float64)
            module.frequency = rotary.base ** (-planes / rotary.rank)

    def get_input_embeddings(self) -> nn.Module:
        return self.unary

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.unary = value

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
    ) -> BaseModelOutputWithPooling | tuple[Any, ...]:
        """Return the words' label scores as ``last_hidden_state``, the root's as ``pooler_output``, and on request head
        marginals as ``attentions``. Without a mask, all that is not padding is a word."""
        mask = input_ids != self.config.pad_token_id if attention_mask is None else attention_mask.bool()
        arcs = self.config.output_attentions if output_attentions is None else output_attentions
        encoded = self.encoder(Words(self.unary(input_ids), mask), arcs=bool(arcs))
        outputs = BaseModelOutputWithPooling(
            last_hidden_state=encoded.states,
            pooler_output=encoded.sentence,
            attentions=None if encoded.arcs is None else encoded.arcs.unbind(1),
        )
        return outputs.to_tuple() if return_dict is False else outputs
