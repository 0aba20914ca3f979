"""Compute softmax and linear attention, each in up to three equal forms.

A state is written and read: ``S_t = G_t * S_{t-1} + W_t``, ``o_t = read(q_t, S_t)``. Every model is a choice
of gate G, write W and read. Import from the modules; the package itself exports nothing::

    oracle    the definitions: NumPy loops in float64
    ops       the same as functions on tensors: recurrent, parallel and chunk forms, and steps
    mixers    one token mixer a file: projections around one op; the registry ``MIXERS``
    config    ``ModelConfig``, which describes a model, and the sizes of the paper
    model     ``LanguageModel``, ``generate``
    backend   where a model takes its ops from: this package or the Triton kernels
    training  the trainer, checkpoints, corpora and tasks
    costs     parameters, FLOPs and bytes of state
    interop   weights of other libraries: released models, layers of FLA
    cli       the command ``linattn``

"The study" or "the scaling study" is that of arXiv 2406.16690, Scaling Laws for Linear Complexity Language
Models. "The paper" is the same, but in the docstring of a mixer it is the one that the mixer comes from.
"""

__version__ = "0.1.0"
