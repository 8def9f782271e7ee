"""Models in the files of Hugging Face's `transformers`: BERT and GPT-2 are read and written, our own models
are written.

`transformers` itself is not needed to read or write a folder. To open one of a probabilistic transformer there:

    from probtrans_cli import hf
    hf.register()
    model = transformers.AutoModel.from_pretrained(folder)
"""

from __future__ import annotations

from probtrans_cli.errors import UsageError
from probtrans_cli.hf.bert import Bert, read_bert
from probtrans_cli.hf.gpt2 import read_gpt2, write_gpt2
from probtrans_cli.hf.write import bert_of, write_bert, write_probabilistic

__all__ = [
    "Bert",
    "bert_of",
    "read_bert",
    "read_gpt2",
    "register",
    "write_bert",
    "write_gpt2",
    "write_probabilistic",
]


def register() -> None:
    """Let `transformers` open folders of probabilistic transformers, as AutoConfig and AutoModel; once a process."""
    try:
        from transformers import AutoConfig, AutoModel  # noqa: PLC0415

        from probtrans_cli.hf.auto import ProbabilisticConfig, ProbabilisticModel  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(f"transformers cannot be imported: {error}", hint="pip install transformers") from None
    AutoConfig.register(ProbabilisticConfig.model_type, ProbabilisticConfig, exist_ok=True)
    AutoModel.register(ProbabilisticConfig, ProbabilisticModel, exist_ok=True)
