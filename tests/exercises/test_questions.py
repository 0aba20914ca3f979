"""Every question accepts what is right and rejects every known mistake, with that mistake's own hint."""

import math
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from linattn_exercises.calls import Call, run_call
from linattn_exercises.comparison import Close, Difference, Exactly, Judged, Within
from linattn_exercises.known_mistakes import KnownAnswer, KnownMistake
from linattn_exercises.questions import PUBLIC_SEED, SECONDS, Question, QuestionInfo, define_question
from linattn_exercises.serialization import call_answer
from linattn_exercises.watch import COUNTS, WatchedTensor
from tests.exercises.notebooks import QUESTIONS, name_of

SEEDS = (PUBLIC_SEED, "a secret", "another")
KNOWN = [(question, known) for question in QUESTIONS for known in question.known_answers]
IDS = [f"{name_of(question)}-{known.label}" for question, known in KNOWN]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("question", QUESTIONS, ids=name_of)
def test_the_reference_is_right(question, seed):
    assert question.check(question.reference, seed).right


@pytest.mark.filterwarnings("ignore")  # that a mistake divides by zero is no fault of the check
@pytest.mark.parametrize(("question", "known"), KNOWN, ids=IDS)
def test_a_known_answer_is_recognised(question: Question, known: KnownAnswer):
    for seed in SEEDS[:1] if question.own_code else SEEDS:  # a call that is watched takes seconds
        prepared = question.prepare(seed)
        if isinstance(known, KnownMistake):
            outcomes = [prepared.ask_mistake(known, n) for n in range(len(prepared.calls))]
            verdict = question.judge(outcomes, seed)
            assert not verdict.right
            assert verdict.mistake == known.label
            assert verdict.message.endswith(f"Hint: {known.hint}")
        else:
            begin = time.thread_time()
            verdict = question.check({**question.reference, known.name: known.value}, seed)
            seconds = time.thread_time() - begin
            assert verdict.right, verdict.message
            most = prepared.allow(SECONDS) / 2  # other machines are slower
            assert seconds < most, "too slow for a grader on another machine"


@pytest.mark.parametrize("question", QUESTIONS, ids=name_of)
def test_inputs_depend_on_the_seed_and_on_nothing_else(question):
    def drawn(seed):
        calls = question.draw(np.random.default_rng(seed))
        return repr([(call.name, call.arguments) for call in calls])

    assert drawn(0) == drawn(0)
    assert drawn(0) != drawn(1)


@pytest.mark.parametrize("question", QUESTIONS, ids=name_of)
def test_nothing_expected_is_empty_or_not_a_number(question):
    def finite(value):
        if isinstance(value, tuple):
            return all(map(finite, value))
        if isinstance(value, str):
            return bool(value)
        numbers = np.asarray(value, dtype=float)
        return numbers.size > 0 and not np.isnan(numbers).any()

    assert all(finite(wanted) for wanted in question.prepare(PUBLIC_SEED).wanted)


def test_the_check_prints_and_returns_nothing(capsys):
    question = QUESTIONS[-1]
    assert question(*question.reference.values()) is None
    assert capsys.readouterr().out.startswith(f"Exercise {question.info.number}: right.")


def test_the_check_tells_a_right_answer_that_is_too_slow_for_a_grader(capsys, monkeypatch):
    question, late = QUESTIONS[-1], "s of processor time, and a grader stops after"
    question(*question.reference.values())
    assert late not in capsys.readouterr().out
    monkeypatch.setattr("linattn_exercises.questions.SECONDS", 0)
    question(*question.reference.values())
    assert late not in capsys.readouterr().out  # eight times what the reference takes are allowed
    monkeypatch.setattr("linattn_exercises.questions.TIMES_REFERENCE", 0)
    question(*question.reference.values())
    assert late in capsys.readouterr().out
    question(*[None for _ in question.reference])
    assert late not in capsys.readouterr().out


def test_the_check_tells_a_right_answer_that_takes_too_much_memory_for_a_grader(capsys, monkeypatch):
    info = QuestionInfo("ch01_softmax", "q0", "Zero", "derive", points=1, minutes=1, level=1)
    question = define_question(info, zero=lambda: 0.0)(lambda rng: [Call("zero", (), "nothing")])
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("memory is measured on Linux alone")
    monkeypatch.setattr("linattn_exercises.questions.BYTES", 100_000_000)
    question(lambda: 0.0)
    assert "GB" not in capsys.readouterr().out
    question(lambda: float(torch.ones(200_000_000, dtype=torch.uint8)[0]) - 1)
    assert "right. 1 cases agree" in (told := capsys.readouterr().out)
    assert "But it took 0.2 GB, and a grader stops after 0 GB." in told


def test_the_check_lets_torch_use_one_thread_as_a_grader_does(capsys):
    info = QuestionInfo("ch01_softmax", "q0", "Threads", "derive", points=1, minutes=1, level=1)
    ask = define_question(info, threads=lambda: torch.get_num_threads())  # whose time is measured as well
    question = ask(lambda rng: [Call("threads", (), "nothing")])
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        question(torch.get_num_threads)
        assert torch.get_num_threads() == 3
        question(lambda: [][0])
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert "right" in capsys.readouterr().out


def test_the_check_says_what_it_wants():
    question = next(one for one in QUESTIONS if name_of(one) == "ch02_linear-q5")
    with pytest.raises(TypeError, match=r"answers: got 1, expected feature_width, break_even"):
        question(3)


# --- a small question of our own: the words of the verdict ----------------------------------------------

INFO = QuestionInfo("ch01_softmax", "q0", "Double", "derive", 1, 1, 1)


def double(x):
    return 2 * x


def question(**settings) -> Question:
    bounds = settings.pop("bounds", {})

    @define_question(INFO, **settings, double=double)
    def asked(rng):
        x = torch.from_numpy(rng.normal(size=(3, 2)))
        return [Call("double", (x,), "three rows", bounds=bounds), Call("double", (1.5,), "a number")]

    return asked


def fails(x):
    return x + undefined  # type: ignore[name-defined]


def stub(x):
    raise NotImplementedError


def in_place(x):
    return x.mul_(2) if isinstance(x, torch.Tensor) else 2 * x


def large(x):
    return (torch.zeros(100) + 2)[0] * x


def busy(x):
    for _ in range(50):
        x = x + 0.0
    return 2 * x


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (fails, "three rows: `double` raised NameError in the line `return x + undefined"),
        (stub, "`double` is not answered yet."),
        (lambda x: None, "`double` is not answered yet: it gave None."),
        (lambda x: "two", "`double` got a str, expected shape [3, 2]."),
        (lambda x: (2 * x).T if hasattr(x, "T") else 2 * x, "It has the shape of the transpose."),
        (in_place, "three rows: `double` returned with its argument 1 changed, expected inputs as they"),
        (lambda x: 3 * x, "Every entry is 1.5 times the expected one."),
        (lambda x: 0.1 * x, "Every entry is 0.05 times the expected one."),
        (lambda x: 2.02 * x, "Every entry is 1.01 times the expected one."),
        (lambda x: x * float("nan"), "6 of 6 entries are NaN: look for 0/0"),
        (lambda x: {1, 2}, "returned a set"),
        (7.0, "raised TypeError"),
    ],
)
def test_a_wrong_answer_is_told_what_is_wrong(answer, says):
    verdict = question().check({"double": answer})
    assert not verdict.right
    assert says in verdict.message


@pytest.mark.parametrize(
    "answer",
    [double, lambda x: (2 * np.asarray(x)).tolist(), lambda x: np.float32(2) * np.asarray(x)],
)
def test_a_right_answer_may_come_in_any_form(answer):
    assert question().check({"double": answer}).right


def hoard(x):
    kept = [x + i for i in range(20)]
    return 2 * x if kept else x


def believe(x):
    seen = torch.ones(10, 10, dtype=torch.bool)
    return 2 * x if len(seen) else x


def number(x):
    places = torch.arange(50), torch.arange(30)
    return 2 * x if places else x


def round_off(x):
    kept = (x * 2**20).round().long().reshape(-1, 1) + torch.arange(10)
    return 2 * x if len(kept) else x


def by_product(x):
    return x @ (2.0 * torch.eye(2, dtype=x.dtype)) if isinstance(x, WatchedTensor) and x.ndim else 2 * x


def by_rows(x):
    two = 2.0 * torch.eye(2, dtype=torch.float64)
    return torch.stack([row @ two for row in x]) if isinstance(x, WatchedTensor) and x.ndim else 2 * x


def in_slices(x):
    if isinstance(x, WatchedTensor) and x.ndim:
        x = x + 0.0
        x[:2] *= 2  # Python puts the slice back, which is no work
        x[2:] *= 2
        return x
    return 2 * x


def by_views(x):
    return 2 * x.T.contiguous().T if isinstance(x, WatchedTensor) and x.ndim else 2 * x


@torch.inference_mode()
def by_inference(x):
    parts = x.T.split(1) if isinstance(x, WatchedTensor) and x.ndim else [x]
    return torch.cat([2 * one for one in parts]).T if len(parts) > 1 else 2 * x


def by_promoted(x):
    if not isinstance(x, torch.Tensor):
        return 2 * x
    for _ in range(50):
        dtype = torch.promote_types(x.dtype, torch.result_type(x, 2.0))
    return x.to(dtype) * 2 if torch.can_cast(dtype, x.dtype) else x


def by_vmap(x):
    return torch.vmap(lambda row: 2 * row)(x) if isinstance(x, WatchedTensor) and x.ndim else 2 * x


@pytest.mark.parametrize("answer", [by_rows, by_views, by_inference, by_promoted, by_vmap])
def test_honest_torch_is_kept_as_it_is(answer):
    verdict = question(own_code=True, bounds={"entries": 6}).check({"double": answer})
    assert verdict.right, verdict.message


@pytest.mark.parametrize(
    ("answer", "bounds", "says"),
    [
        (large, {"entries": 6}, "made a tensor of 100 entries, expected at most 6"),
        (busy, {"operations": 10}, "torch operations, expected at most 10"),
        (hoard, {"held": 60}, "held tensors of 126 entries at a time, expected at most 60"),
        (believe, {"entries": 6, "held": 19, "truths": 99}, "made a tensor of 100 truth values"),
        (believe, {"entries": 6, "held": 19, "truths": 100}, ""),
        (number, {"held": 12, "positions": 79}, "held 80 whole numbers at a time, expected at most 79"),
        (number, {"held": 12, "positions": 80}, ""),
        (round_off, {"held": 60, "positions": 20}, "entries at a time, expected at most 60"),
        (by_product, {"work": 11}, "took a work of 20"),
        (double, {"entries": 6, "operations": 10, "held": 12, "work": 6}, ""),
        (in_slices, {"work": 12}, ""),
        (in_slices, {"work": 11}, "took a work of 12"),
    ],
)
def test_work_is_counted(answer, bounds, says):
    verdict = question(own_code=True, bounds=bounds).check({"double": answer})
    assert verdict.right is not bool(says), verdict.message
    assert says in verdict.message


def softmax_of(x):
    return torch.softmax(x, -1)


def own_softmax(x):
    def softmax(y):
        return 2 * y

    return softmax(x)


def test_a_library_function_that_answers_the_question_is_refused():
    asked = question(own_code=True)
    for answer in (softmax_of, torch.inference_mode()(softmax_of), torch.vmap(softmax_of)):
        assert "softmax`." in asked.check({"double": answer}).message
    assert asked.check({"double": own_softmax}).right


@pytest.mark.parametrize(
    "question", [one for one in QUESTIONS if one.own_code and "ch06" not in name_of(one)]
)
def test_inference_mode_changes_no_count(question):  # but of kernels, which torch does not run
    (name,) = question.reference
    right = [known.value for known in question.known_answers if not isinstance(known, KnownMistake)]
    for answer in (question.reference[name], *right):
        both = [{name: answer}, {name: torch.inference_mode()(answer)}]
        for call in question.prepare(PUBLIC_SEED).calls:
            plain, quick = (run_call(one, call, True) for one in both)
            assert {n: plain[n] for n in COUNTS} == {n: quick[n] for n in COUNTS}


def test_a_second_slip_does_not_hide_a_known_mistake():
    """Where no known mistake fits all calls, the one that alone fits the first wrong call is named."""
    asked = next(one for one in QUESTIONS if one.info.title.startswith("Causal online"))
    known = next(one for one in asked.known_mistakes if one.label == "without_scale")

    def twice_wrong(q, k, v, tile):
        output, log_sum = known.value(q, k, v, tile)
        return output, log_sum if len(q) == 7 else log_sum + 1.0

    assert asked.check({"online_softmax": twice_wrong}).message.endswith(known.hint)


@pytest.mark.parametrize("question", QUESTIONS, ids=name_of)
def test_a_known_mistake_calls_nothing_that_is_missing(question):
    prepared = question.prepare(PUBLIC_SEED)
    for known in question.known_mistakes:
        number = next(n for n, call in enumerate(prepared.calls) if call.name == known.name)
        assert prepared.ask_mistake(known, number).get("error") != "NameError", known.label


def test_a_result_that_is_nan_everywhere_is_no_known_mistake():
    asked = next(one for one in QUESTIONS if one.info.title.startswith("A loss"))
    answer = {"fault": "C", "repaired": lambda q, k, v: v * math.nan}
    verdict = asked.check(answer)
    assert verdict.mistake == ""
    assert "entries are NaN: look for 0/0" in verdict.message


def test_chunks_that_are_too_short_are_no_loop_over_tokens():
    asked = next(one for one in QUESTIONS if one.info.title.startswith("A chunk form"))

    def short(q, k, v, g, state, chunk):
        return asked.reference["chunked"](q, k, v, g, state, min(chunk, 12))

    assert "shorter than `chunk`" in asked.check({"chunked": short}).message


def test_a_step_in_float32_is_told():
    asked = next(one for one in QUESTIONS if one.info.title.startswith("A chunk form"))

    def narrow(q, k, v, g, state, chunk):
        return asked.reference["chunked"](q, k, v, float(torch.tensor(g)), state, chunk)

    assert "Hint: It agrees to 7 digits" in asked.check({"chunked": narrow}).message


def test_a_table_of_another_size_is_no_known_one():
    asked = next(one for one in QUESTIONS if one.info.title.startswith("A chunk form"))

    def wide(q, k, v, g, state, chunk):
        n = -(-len(q) // chunk) + 1
        between = torch.zeros(n, n, dtype=q.dtype)  # from chunk to chunk
        return asked.reference["chunked"](q, k, v, g, state + between[0, 0], chunk)

    message = asked.check({"chunked": wide}).message
    assert message.endswith("made a tensor of 961 entries, expected at most 480.")


def test_a_missing_answer_is_named():
    assert "`double` is not defined" in question().check({}).message


# --- comparisons ----------------------------------------------------------------------------------------


def name_odd(value):
    return Difference("", str(value), "an even number") if value % 2 else None


@pytest.mark.parametrize(
    ("how", "got", "want", "accepted"),
    [
        (Close(1e-3), 1.0005, 1.0, True),
        (Close(1e-3), 1.002, 1.0, False),
        (Close(1e-3), 1000.5, 1000.0, True),
        (Close(), 1 + 5e-6, 1.0, True),
        (Close(), 1 + 2e-5, 1.0, False),
        (Close(), float("nan"), 1.0, False),
        (Close(), float("inf"), float("inf"), True),
        (Close(), float("-inf"), float("inf"), False),
        (Close(), True, 1.0, False),
        (Close(), [True, False], np.array([True, False]), True),
        (Close(), [1, 0], np.array([True, False]), True),
        (Close(), [True, True], np.array([True, False]), False),
        (Close(), "1", 1.0, False),
        (Close(), (1.0, 2.0), (1.0, 2.0), True),
        (Close(), [1.0, 2.0], (1.0, 2.0), True),
        (Close(), (1.0,), (1.0, 2.0), False),
        (Close(), np.ones((2, 3)), np.ones((3, 2)), False),
        (Close(), [[1, 2], [3]], np.ones((2, 2)), False),
        (Close(), 10**400, 1.0, False),
        (Within(1.1), 1.05, 1.0, True),
        (Within(1.1), 1.2, 1.0, False),
        (Within(1.1), 0.8, 1.0, False),
        (Within(1.1), -1.0, 1.0, False),
        (Within(1.1), float("nan"), 1.0, False),
        (Within(1.1), None, 1.0, False),
        (Exactly(), "B", "B", True),
        (Exactly(), " b", "B", True),
        (Exactly(), "b.", "B", True),
        (Exactly(), "B: the mask", "B", True),
        (Exactly(), "(B)", "B", True),
        (Exactly(), "B.", "B", True),
        (Exactly(), "option b", "B", True),
        (Exactly(), "model II: backward left out", "II", True),
        (Exactly(), "II or III", "II", False),
        (Exactly(), "Answer: B", "B", True),
        (Exactly(), "B, a row and a mask", "B", True),
        (Exactly(), "B. A row adds up to less, as in C", "B", True),
        (Exactly(), "B or C", "B", False),
        (Exactly(), "(B) or (c)", "B", False),
        (Exactly(), "B, A", "B", False),
        (Exactly(), "B/C", "B", False),
        (Exactly(), "option B and option C", "B", False),
        (Exactly(), "C or B", "B", False),
        (Exactly(), "not B", "B", False),
        (Exactly(), "BC", "B", False),
        (Exactly(), "Both", "B", False),
        (Exactly(), ".", "B", False),
        (Exactly(), "C", "B", False),
        (Exactly(), "B: C is not scaled", "B", True),
        (Exactly(), "B? C?", "B", False),
        (Exactly(), "B (or maybe C)", "B", False),
        (Exactly(), "B then C", "B", False),
        (Exactly(), "B vs. C", "B", False),
        (Exactly(), "B > C", "B", False),
        (Exactly(), "B (C)", "B", False),
        (Exactly(), "B? no, C", "B", False),
        (Exactly(), "B, possibly C", "B", False),
        (Exactly(), "B, not C", "B", True),
        (Exactly(), "B (not scaled)", "B", True),
        (Exactly(), "B, not a mask but a row", "B", True),
        (Exactly(), "B (a row)", "B", True),
        (Exactly(), "B, I think", "B", True),
        (Exactly(), "II, I think", "II", True),
        (Exactly(), "II, D = 8", "II", True),
        (Exactly(), "B, V rows", "B", True),
        (Exactly(), "`B`", "B", True),
        (Exactly(), "**B**", "B", True),
        (Exactly(), "'B'", "B", True),
        (Exactly(), "It is B", "B", True),
        (Exactly(), "The answer is B.", "B", True),
        (Exactly(), "the fault is (B)", "B", True),
        (Exactly(), "It is C", "B", False),
        (Exactly(), "B, II", "B", False),
        (Exactly(), "**B** or **C**", "B", False),
        (Exactly(), "`B`, `C`", "B", False),
        (Exactly(), "'B'/'C'", "B", False),
        (Exactly(), "[B] [C]", "B", False),
        (Exactly(), "B or rather C", "B", False),
        (Exactly(), "B, or more likely C", "B", False),
        (Exactly(), "B (60 %) or C (40 %)", "B", False),
        (Exactly(), "B: 100 %", "B", True),
        (Exactly(), "B_bar is missing", "B", False),
        (Exactly(), "I think B", "B", True),
        (Exactly(), "I'd say it's B", "B", True),
        (Exactly(), "It's option B", "B", True),
        (Exactly(), "It must be B", "B", True),
        (Exactly(), "Definitely B", "B", True),
        (Exactly(), "I pick B", "B", True),
        (Exactly(), "So, statement B", "B", True),
        (Exactly(), "So a gate is missing", "A", False),
        (Exactly(), "So I think B", "I", False),
        (Exactly(), "I choose a gate: B", "I", False),
        (Exactly(), "I'm sure it is B", "I", False),
        (Exactly(), "I is wrong", "I", True),
        (Exactly(), "I or II", "I", False),
        (Exactly(), "A decay after write", "A", False),
        (Exactly(), "I think C", "B", False),
        (Exactly(), "I think I", "I", True),
        (Exactly(), "A gate is missing", "A", False),
        (Exactly(), "A because of rounding", "A", True),
        (Exactly(), "A: a gate", "A", True),
        (Exactly(), "B ? " + " " * 300_000 + "1", "B", True),  # read in a moment
        (Exactly(), "(" * 300_000 + "the" + " " * 300_000, "B", False),
        (Exactly(), True, 1, False),
        (Exactly(), torch.tensor(True), 1, False),
        (Exactly(), torch.tensor(5), 5, True),
        (Exactly(), 5.0, 5, True),
        (Exactly(), 5.5, 5, False),
        (Close(), np.array([2.0, 3.0]), (2.0, 3.0), True),
        (Close(), torch.tensor([2.0, 4.0]), (2.0, 3.0), False),
        (Close(), torch.tensor(2.0), (2.0, 3.0), False),
        (Judged(name_odd), 4, 2, True),
        (Judged(name_odd), 3, 2, False),
        (Judged(name_odd), 3, 5, True),  # a known mistake that lacks the same
        (Judged(name_odd), 4, 5, False),
    ],
)
def test_what_is_accepted(how, got, want, accepted):
    assert (how.find_difference(got, want) is None) is accepted


def test_two_letters_are_told_to_be_two():
    for got, says in (
        ("B: A, C and D are close", "one letter"),
        ("C or B", "one letter"),
        ("C", "another answer"),
        ("what?", "a letter first"),
        ("The denominator counts too many keys (B)", "a letter first"),
    ):
        assert says in str(Exactly().find_difference(got, "B"))


def test_the_first_wrong_entry_is_named():
    got, want = torch.zeros(2, 3), torch.zeros(2, 3)
    got[1, 0], got[1, 2] = 5.0, 7.0
    found = Close().find_difference((want, got), (want, want))
    assert found is not None
    assert (found.where, found.got, found.expected) == ("[1][1, 0]", "5", "0")


def test_a_factor_that_is_no_factor_is_not_told():
    for factor, says in ((1.000001, "2"), (1.05, "2 up to a factor of 1.05")):
        found = Within(factor).find_difference(3.0, 2.0)
        assert found is not None
        assert found.expected == says


def test_an_input_that_is_no_number_is_not_taken_for_a_changed_one():
    assert call_answer({"f": math.isnan}, "f", [math.nan]) == {"value": True}


def test_an_exception_has_one_line_and_no_paths():
    def boasts(x):
        raise ValueError("no\n\nExercise 1.5\nRight: 3 of 3 points in /home/x/lib/python3.11/y " + "/" * 900)

    begin = time.monotonic()
    message = question().check({"double": boasts}).message
    assert "no Exercise 1.5 Right: 3 of 3 points in y" in message
    assert time.monotonic() - begin < 1


def test_one_right_answer_of_many_is_no_measure_of_rows():
    def design(K):  # the last key is nearly a sum of the first ones alone
        keys, signs, weights = np.eye(K) + 1, np.append(np.ones(K), -1.0), 0.5 ** np.arange(K)
        return np.vstack([keys, weights @ keys]), signs, np.append(weights, 1.0)

    question = next(one for one in QUESTIONS if one.info.number == "9.5")
    verdict = question.check({**question.reference, "design": design})
    assert not verdict.right
    assert "rows are right" not in verdict.message


def test_no_function_can_rely_on_what_another_was_called_with():
    """8.5 asks three functions about the same runs; one that reads what the one before left is told."""
    question = next(one for one in QUESTIONS if one.info.number == "8.5")
    right, left = question.reference, {}

    def robust(N, L):
        left["line"] = right["robust"](N, L)
        return left["line"]

    def suspect(N, L):
        k, a = left.get("line", (1.0, 0.0))
        return int((np.log(L) - np.log(k) + a * np.log(N)).argmax())

    assert not question.check({**right, "robust": robust, "suspect": suspect}).right
    names = [[call.name for call in question.prepare(seed).calls] for seed in SEEDS[1:]]
    assert names[0] != names[1]
