from collections.abc import Sequence

from reconciler.agent.answers import Answers


def sum_of(numbers: Sequence[int], *, more: int = 0) -> list[int]:
    """A list, so that one answer can be told from another that is equal."""
    return [sum(numbers) + more]


def test_asked_just_the_same_the_very_answer_of_the_last_time_is_given() -> None:
    answers: Answers[list[int]] = Answers()
    first = answers.of("a", sum_of, [1, 2])
    assert answers.of("a", sum_of, [1, 2]) is first == [3]


def test_anything_else_that_is_asked_is_worked_out() -> None:
    answers: Answers[list[int]] = Answers()
    asked = [answers.of("a", sum_of, [1, 2]), answers.of("a", sum_of, [1, 3]), answers.of("a", sum_of, [1, 3], more=1)]
    assert asked == [[3], [4], [5]]
    assert answers.of("a", sorted, [1, 3]) == [1, 3], "another function, asked the same"


def test_what_is_about_one_thing_is_not_said_of_another() -> None:
    answers: Answers[list[int]] = Answers()
    first = answers.of("a", sum_of, [1])
    assert answers.of("b", sum_of, [1]) is not first
    assert answers.of("a", sum_of, [1]) is first, "it is kept beside the other"


def test_what_is_not_asked_about_any_more_is_forgotten() -> None:
    answers: Answers[list[int]] = Answers()
    first, second = answers.of("a", sum_of, [1]), answers.of("b", sum_of, [2])
    answers.keep_only({"b"})
    assert answers.of("b", sum_of, [2]) is second
    assert answers.of("a", sum_of, [1]) is not first


def test_a_question_that_fails_is_asked_again() -> None:
    answers: Answers[list[int]] = Answers()
    numbers: list[int] = []

    def first_of(numbers: list[int]) -> list[int]:
        return [numbers[0]]

    for _ in range(2):
        try:
            answers.of("a", first_of, numbers)
        except IndexError:
            continue
        raise AssertionError("an error was kept as an answer")
