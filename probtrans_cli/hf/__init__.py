"""Models in the files of Hugging Face's `transformers`: BERT's both ways, our own with classes of ours.

`transformers` itself is not needed to read or write a folder.
"""

from __future__ import annotations

from probtrans_cli.hf.bert import Bert, read_bert
from probtrans_cli.hf.write import bert_of, write_bert

__all__ = ["Bert", "bert_of", "read_bert", "write_bert"]
