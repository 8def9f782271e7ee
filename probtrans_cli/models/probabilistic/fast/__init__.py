"""What only makes the probabilistic transformer fast: nothing here is needed to understand the model.

The room above holds the equations (``crf.py``) and the parameters; ``meanfield.py`` is the same inference on packed
words. Tests hold every form equal to the equations, and a training compares them before it starts. Two ideas pay: no
work on padding, and near buckets as shifts. Derivatives are written by hand where that gains at least 15 % of a step
(``python -m tests.bench.encoder``).

    meanfield.py      the iteration on rows, one a real word; the choice of a form
    layout.py         where the words of a padded batch stand
    messages.py       messages of the ternary factors, between sides and labels
    bands.py          near buckets, by shifts along the sentence
    heads.py          far buckets, and distributions of the heads: stored, or in blocks
    triton_heads.py   far buckets and distributions of the usual case, as kernels of a GPU
    triton_bands.py   near buckets, as kernels of a GPU
"""
