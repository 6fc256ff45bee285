"""The study's tables: extremes with their texts, class size against action, action against entropy, hard words."""

import numpy as np
import pytest
from scipy import stats
from test_queries import INF, NAN, actions, ask, class_names, losses, pick, scores, table, trainings

from actionflow.store import schema

ON_DIGITS = trainings({"run_id": "a"})


def samples(*rows, digest="d1", part="test"):
    return table(schema.SAMPLES, rows, dataset="emotion", digest=digest, part=part)


def outputs(*rows):
    return table(schema.OUTPUTS, rows, run_id="a", split="val")


# The most and the least difficult


def test_extremes_are_both_ends_each_from_its_extreme_inward():
    rows = ask("extremes", {"k": 2}, scores=actions(s0=3.0, s1=9.0, s2=1.0, s3=5.0, s4=2.0))
    assert pick(rows, "difficulty", "place", "sample_id", "action") == [
        ("most", 1, 1, 9.0),
        ("most", 2, 3, 5.0),
        ("least", 1, 2, 1.0),
        ("least", 2, 4, 2.0),
    ]


def test_extremes_say_what_a_classified_text_is_and_what_it_was_taken_for():
    rows = ask(
        "extremes",
        {"k": 1},
        scores=scores({"sample_id": 1, "label": 0, "prediction": 1, "action": 2.0, "entropy": 0.5}),
        samples=[
            class_names("joy", "love", digest="d1"),
            samples({"sample_id": 1, "label": 0, "label_name": "joy", "text": "i feel fine", "key": "val/1"}),
        ],
        runs=ON_DIGITS,
    )
    assert pick(rows, "text", "target", "predicted", "entropy")[0] == ("i feel fine", "joy", "love", 0.5)


def test_extremes_show_the_text_that_was_asked_for_and_the_one_that_was_written():
    rows = ask(
        "extremes",
        {"k": 1},
        scores=actions(s7=2.0),
        samples=samples({"sample_id": 7, "text": "A: hi", "context": "at work", "target_text": "A says hi."}),
        outputs=outputs({"sample_id": 7, "predicted_text": "A is there."}),
        runs=ON_DIGITS,
    )
    assert pick(rows, "context", "target", "predicted")[0] == ("at work", "A says hi.", "A is there.")


def test_extremes_without_the_data_set_give_numbers():
    (most, least) = ask(
        "extremes", {"k": 1}, scores=scores({"sample_id": 0, "label": 3, "prediction": 4, "action": 1.0})
    )
    assert (most["target"], most["predicted"], most["text"]) == ("3", "4", None)
    assert least["sample_id"] == most["sample_id"], "a run of one sample has it at both ends"


def test_extremes_of_a_data_set_that_two_experiments_keep_come_once():
    kept = samples({"sample_id": 0, "label": 0, "label_name": "joy", "text": "fine"})
    assert len(ask("extremes", {"k": 1}, scores=actions(s0=1.0), samples=[kept, kept], runs=ON_DIGITS)) == 2


def test_extremes_break_ties_by_sample_and_put_what_is_not_a_number_first_among_the_most_difficult():
    rows = ask("extremes", {"k": 2}, scores=actions(s3=1.0, s1=1.0, s2=1.0, s0=NAN))
    assert pick(rows, "difficulty", "sample_id") == [("most", 0), ("most", 1), ("least", 1), ("least", 2)]


# Class size against action


def class_scores(split, **classes):
    """Samples of classes c0, c1, …, given by their actions."""
    listed = [(int(name[1:]), action) for name, given in classes.items() for action in given]
    start = 0 if split == "train" else 1000
    return scores(
        *(
            {"sample_id": start + n, "label": label, "action": action, "correct": action < 3}
            for n, (label, action) in enumerate(listed)
        ),
        split=split,
    )


def test_rare_classes_that_are_harder_correlate_below_zero():
    training = class_scores("train", c0=[0.0] * 4, c1=[0.0] * 2, c2=[0.0])
    judged = class_scores("val", c0=[1.0, 1.0], c1=[2.0], c2=[4.0, 4.0])
    rows = ask(
        "class_size_vs_action", scores=[training, judged], samples=class_names("joy", "fear", "love"), runs=ON_DIGITS
    )
    columns = ("label_name", "training_samples", "samples", "accuracy", "mean_action")
    assert pick(rows, *columns) == [("joy", 4, 2, 1.0, 1.0), ("fear", 2, 1, 1.0, 2.0), ("love", 1, 2, 0.0, 4.0)]
    assert pick(rows, "pearson") == pytest.approx([stats.pearsonr([4, 2, 1], [1, 2, 4]).statistic] * 3)
    assert pick(rows, "spearman") == pytest.approx([-1.0] * 3)


def test_a_run_that_recorded_no_training_is_held_against_its_data_sets_training_part():
    kept = samples(*({"sample_id": n, "label": n % 2} for n in range(5)), part="train")
    # Sample 4 was taken out of the training part for validation.
    judged = scores({"sample_id": 4, "label": 0, "action": 1.0}, {"sample_id": 9, "label": 1, "action": 2.0})
    rows = ask("class_size_vs_action", scores=judged, samples=[kept, kept], runs=ON_DIGITS)
    assert pick(rows, "label", "training_samples") == [(0, 2), (1, 2)]


def test_a_class_that_broke_is_shown_and_not_correlated():
    training = class_scores("train", c0=[0.0] * 3, c1=[0.0] * 2, c2=[0.0])
    judged = class_scores("val", c0=[1.0], c1=[2.0], c2=[INF])
    rows = ask("class_size_vs_action", scores=[training, judged], runs=ON_DIGITS)
    assert pick(rows, "mean_action") == [1.0, 2.0, INF]
    assert rows[0]["pearson"] == pytest.approx(-1.0)


def test_without_sizes_there_is_no_correlation():
    rows = ask("class_size_vs_action", scores=class_scores("val", c0=[1.0], c1=[2.0]), runs=ON_DIGITS)
    assert pick(rows, "training_samples", "pearson") == [(None, None), (None, None)]


# Action against entropy


def both(*pairs):
    return scores(*({"sample_id": n, "action": a, "entropy": e} for n, (a, e) in enumerate(pairs)))


def test_action_and_entropy_correlate_as_in_scipy():
    draw = np.random.default_rng(3)
    action = np.round(draw.gamma(1.0, 2.0, 50), 1)
    entropy = np.round(action + draw.gamma(1.0, 2.0, 50), 1).astype(np.float32)
    (row,) = ask("action_entropy_correlation", scores=both(*zip(action.tolist(), entropy.tolist(), strict=True)))
    assert row["pearson"] == pytest.approx(stats.pearsonr(action, entropy.astype(float)).statistic, abs=1e-9)
    assert row["spearman"] == pytest.approx(stats.spearmanr(action, entropy).statistic, abs=1e-9)


def test_the_variance_of_the_loss_is_held_against_entropy_too():
    varied = [{"sample_id": n, "action_variance": v, "entropy": e} for n, (v, e) in enumerate([(1, 3), (2, 2), (3, 1)])]
    (row,) = ask("action_entropy_correlation", {"score": "action_variance"}, scores=scores(*varied))
    assert (row["score"], row["pearson"], row["spearman"]) == ("action_variance", pytest.approx(-1), pytest.approx(-1))


def test_hard_samples_that_the_model_was_certain_of_are_counted():
    (row,) = ask(
        "action_entropy_correlation", scores=both((0.0, 0.0), (10.0, 0.0), (8.0, 1.0), (6.0, 0.05), (NAN, 0.5))
    )
    assert (row["samples"], row["left_out"], row["hard"], row["hard_and_certain"]) == (4, 1, 3, 2)
    assert (row["score_low"], row["score_high"], row["entropy_high"]) == (0.0, 10.0, 1.0)


def test_a_task_without_entropy_has_a_row_and_no_correlation():
    (row,) = ask("action_entropy_correlation", scores=actions(s0=1.0, s1=2.0))
    assert (row["samples"], row["left_out"], row["pearson"]) == (0, 2, None)


def test_normalised_scores_reach_from_zero_to_one_in_each_run():
    rows = ask("score_vs_score", {"normalised": 1}, scores=both((2.0, 4.0), (4.0, 4.0), (6.0, 4.0), (INF, 4.0)))
    assert pick(rows, "x", "y") == [(0.0, None), (0.5, None), (1.0, None), (INF, None)]


# Curves, descriptions, words


def test_sample_curves_are_of_one_run_and_split():
    seen = [losses("a", s1=[2.0, 1.0]), losses("b", s1=[9.0]), losses("a", split="train", s1=[9.0])]
    rows = ask("sample_curves", {"run_id": "a"}, dynamics=seen)
    assert pick(rows, "sample_id", "epoch", "loss") == [(1, 0, 2.0), (1, 1, 1.0)]


def test_descriptions_tell_a_sample_once():
    kept = samples({"sample_id": 3, "text": "fine", "label": 1, "label_name": "joy"})
    rows = ask(
        "descriptions", {"run_id": "a"}, samples=[kept, kept, samples({"sample_id": 4}, digest="d2")], runs=ON_DIGITS
    )
    assert pick(rows, "sample_id", "text", "label_name") == [(3, "fine", "joy")]


def test_hard_words_are_ranked_by_their_mean_loss():
    said = outputs(
        {"sample_id": 0, "tokens": ["the", "wind", "the"], "token_losses": [0.5, 3.0, 1.5]},
        {"sample_id": 1, "tokens": ["wind", "once"], "token_losses": [5.0, 9.0]},
        {"sample_id": 2, "tokens": ["the"], "token_losses": [NAN]},
        {"sample_id": 3, "predicted_text": "no tokens at all"},
    )
    rows = ask("hard_words", {"least": 2}, outputs=said)
    assert pick(rows, "place", "token", "occurrences", "samples", "mean_loss", "largest_loss") == [
        (1, "wind", 2, 2, 4.0, 5.0),
        (2, "the", 2, 1, 1.0, 1.5),
    ]
    assert pick(ask("hard_words", {"least": 1, "k": 1}, outputs=said), "token") == ["once"]
