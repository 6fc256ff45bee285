-- Two scores of every sample side by side: action against entropy, or any other two.
--
-- reads    scores (run_id, split, sample_id, label, prediction, correct, and the two scores)
-- takes    $split        which split; val
--          $score_x      one score; action
--          $score_y      the other; entropy
--                        of action, action_mean, action_variance, last_loss, entropy, confidence, variability,
--                        correctness, aum, forgetting, el2n, vog, vog_early, vog_late, grand
--          $normalised   1 to bring both to 0..1 within each run, 0 for the scores as they are; 0
-- returns  run_id, split, sample_id, label, prediction, correct, x, y
--          one row per run and sample, in no order of their own
--
-- Nothing is left out: what is not finite is there, and a sample without a score has NULL. Normalised is
-- (x - low) / (high - low) over the finite scores of the run; NULL where these are all the same.

with points as (
    select
        run_id,
        split,
        sample_id,
        label,
        prediction,
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
            when 'vog' then vog
            when 'vog_early' then vog_early
            when 'vog_late' then vog_late
            when 'grand' then grand
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
            when 'vog' then vog
            when 'vog_early' then vog_early
            when 'vog_late' then vog_late
            when 'grand' then grand
            else assert_true(false, concat('there is no score ', $score_y))
        end as double) as y
    from scores
    where split = $split
),

spans as (
    select
        run_id,
        min(case when abs(x) < cast('infinity' as double) then x end) as x_low,
        max(case when abs(x) < cast('infinity' as double) then x end) as x_high,
        min(case when abs(y) < cast('infinity' as double) then y end) as y_low,
        max(case when abs(y) < cast('infinity' as double) then y end) as y_high
    from points
    where cast($normalised as boolean)
    group by run_id
)

select
    points.run_id,
    points.split,
    points.sample_id,
    points.label,
    points.prediction,
    points.correct,
    case
        when cast($normalised as boolean) then (points.x - spans.x_low) / nullif(spans.x_high - spans.x_low, 0)
        else points.x
    end as x,
    case
        when cast($normalised as boolean) then (points.y - spans.y_low) / nullif(spans.y_high - spans.y_low, 0)
        else points.y
    end as y
from points
left join spans on points.run_id = spans.run_id
