"""What only makes the probabilistic transformer fast: nothing here is needed to understand the model.

The room above holds the equations (``crf.py``) and the parameters; ``meanfield.py`` is the same inference on packed
words, and ``forms.py`` chooses what is used of the rest. Tests hold every form equal to the equations, a training
compares them before it starts, and ``python -m tests.bench.parts`` says what some of the parts gain.

    meanfield.py     the iteration on rows, one a real word
    forms.py         the choice of a form
    messages.py      what the messages of the ternary factors take and give
    head_variables.py  distributions of the heads, kept for all pairs of words
    layout.py        where the words of a padded batch stand
    banded.py        messages by buckets: near words by shifts (``bands.py``), far words by one product a bucket
    fused.py         scores, softmax, dropout and messages of a block of words (``blocks.py``) in one operation, by hand
    recomputed.py    the same in plain operations, for every option and device; all is computed again for the gradient
    products.py      products with the model's matrices, which add up their gradients
    pairs.py         products of the words of a sentence
    lines.py         the layout of real words alone, where short sentences share a line
    dropout.py       dropout; drawn_dropout.py: four decisions out of one random number
    derivatives.py   gradients by hand are not differentiated again
"""
