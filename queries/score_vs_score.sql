-- Two scores of every sample side by side: action against entropy, or any other two.
--
-- reads    scores (run_id, split, sample_id, label, correct, and the two scores)
-- takes    $split     which split; val
--          $score_x   one score; action
--          $score_y   the other; entropy
--                     of action, action_mean, action_variance, last_loss, entropy, confidence, variability,
--                     correctness, aum, forgetting, el2n
-- returns  run_id, split, sample_id, label, correct, x, y
--          one row per run and sample, in no order of their own
--
-- Nothing is left out: what is not finite is there, and a sample without a score has NULL.

select
    run_id,
    split,
    sample_id,
    label,
    correct,
    cast(case $score_x
        when 'action' then action
        when 'action_mean' then action_mean
        when 'action_variance' then action_variance
        when 'last_loss' then last_loss
        when 'entropy' then entropy
        when 'confidence' then confidence
        when 'variability' then variability
        when 'correctness' then correctness
        when 'aum' then aum
        when 'forgetting' then forgetting
        when 'el2n' then el2n
        else assert_true(false, concat('there is no score ', $score_x))
    end as double) as x,
    cast(case $score_y
        when 'action' then action
        when 'action_mean' then action_mean
        when 'action_variance' then action_variance
        when 'last_loss' then last_loss
        when 'entropy' then entropy
        when 'confidence' then confidence
        when 'variability' then variability
        when 'correctness' then correctness
        when 'aum' then aum
        when 'forgetting' then forgetting
        when 'el2n' then el2n
        else assert_true(false, concat('there is no score ', $score_y))
    end as double) as y
from scores
where split = $split
