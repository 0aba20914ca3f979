"""The tests: what each folder proves, which helper draws inputs, and where a new test goes.

There is a folder for each room of the repository and each part of ``linattn_ref``. The oracle has none
of its own: it is what ops are held to, and that its forms are equal is proven in ``ops/test_proofs.py``.

``ops``
    That every form of every op is right. ``test_ladder.py``: all forms against the oracle and each other,
    over covers of sizes, decays and dtypes. ``test_errors.py``: wrong arguments. ``test_proofs.py``:
    equality for all numbers, with symbols. The others are laws, on a small case of each form: causality,
    independence of batches and heads, memory layout, NaN, gradients, compilation, long sequences.
``mixers``, ``model``
    That a layer, and a language model, obeys the same laws: decoding, splits, causality, learning.
``training``, ``costs``, ``interop``
    The trainer, checkpoints and corpora; parameters, FLOPs and state; names and layers of other libraries.
``kernels``, ``study``, ``benchmarks``, ``book``, ``exercises``
    The rooms of these names. Those called ``test_findings...`` in ``study`` hold what its pages say against
    the committed tables.
``support``
    What several folders share, and tests of the reference as a whole: its help and its size.

Who draws inputs, and the bound on the error:

=======================  ===============================================  ====================================
of                       inputs                                           bound
=======================  ===============================================  ====================================
an op, many cases        ``ops/ladder.py``: ``inputs_of(case)``           ``ops/ladder.py``: 1e-10, and below
                                                                          float64 from how far results move
an op, a case each form  ``ops/every_form.py``: ``rows()``, ``steps()``   ``EXACT`` there, 1e-12
a kernel                 the ladder's; ``kernels/kernel_cases.py``        ``kernels/kernel_bounds.py``
a mixer                  ``mixers/mixer_cases.py``: ``build, inputs``     ``EXACT`` there, 1e-10
a training run           ``training/tiny_training.py``                    none: the same bits
a trial of the study     ``study/study_helpers.py``                       none: the same bits
=======================  ===============================================  ====================================

The error is ``err`` of ``support/closeness.py``. ``assert_close`` there also refuses NaN and another shape.

Where a new test goes:

- A form: nowhere. It joins ``linattn_ref.ops.FORMS`` and is tested. Only what sets it apart is told: how far
  back a NaN reaches (``REACH`` in ``ops/test_not_finite.py``), and that it loops over tokens, if it is not
  called recurrent (``LOOP_FREE`` in ``ops/test_compilation.py``).
- An op: an ``Op`` in ``ops/ladder_heads.py`` or ``ladder_channels.py``, and the wrong arguments that no other
  op has in ``ops/wrong_heads.py`` or ``wrong_channels.py``.
- A mixer: nowhere but for its options (``mixers/test_configuration.py``). It joins ``MIXERS`` and is tested.
  Only parameters that keep their initial values are told (``SPARED`` in ``model/test_spared.py``).
- A theorem: a test of it carries ``@pytest.mark.theorem`` with its label.
"""
