"""What only makes the probabilistic transformer fast: nothing here is needed to understand the model.

The room above holds the equations in plain operations (``meanfield.py``, ``messages.py``, ``head_variables.py``,
``projections.py``, ``layout.py``, ``dropout.py``), and ``forms.py`` chooses what is used of the modules in here. Tests
hold every form equal to the plain one, and ``python -m tests.bench.parts`` says what some of the parts gain.

    banded.py        messages by buckets: near words by shifts (``bands.py``), far words by one product a bucket
    fused.py         scores, softmax, dropout and messages of a block of words (``blocks.py``) in one operation, by hand
    recomputed.py    the same in plain operations, for every option and device; all is computed again for the gradient
    products.py      products with the model's matrices, which add up their gradients
    pairs.py         products of the words of a sentence
    lines.py         the layout of real words alone, where short sentences share a line
    dropout.py       four decisions out of one random number
    derivatives.py   gradients by hand are not differentiated again
"""
