"""What only makes the probabilistic transformer fast: nothing here is needed to understand the model.

The room above holds the equations in plain operations (``meanfield.py``, ``messages.py``, ``head_variables.py``,
``potentials.py``); tests hold every form in here equal to them.

    products.py      products with the model's matrices, whose gradients are added up by hand
    banded.py        messages by buckets: near words by shifts (``bands.py``), far words by one product a bucket
    fused.py         scores, softmax, dropout and messages of a block of words (``blocks.py``) in one operation, by hand
    recomputed.py    the same block by block in plain operations, for every option and device; nothing is kept
"""
