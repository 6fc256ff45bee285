-- The easiest samples of each class or run: those that collected the least loss.
--
-- reads    scores (run_id, split, sample_id, label, prediction, action, action_mean, entropy, correctness)
-- takes    $split       which split; val
--          $k           how many samples; 10
--          $per_class   1 for k samples of each class, 0 for k of each run; 1
-- returns  run_id, split, easiness_rank, sample_id, label, prediction, action, action_mean, entropy, correctness
--          at most k rows per run (and class), easiest first
--
-- Ties go by sample_id. An action that is not a number is never easy: it comes last.
--
-- First the k-th value, then the rows: engines find the k first by one column without a sort, not by two.

with chosen as (
    select
        run_id,
        split,
        sample_id,
        label,
        prediction,
        action,
        action_mean,
        entropy,
        correctness,
        case when cast($per_class as boolean) then coalesce(label, -1) else 0 end as class
    from scores
    where split = $split and action is not null
),

places as (
    select run_id, class, action, row_number() over (partition by run_id, class order by action) as place
    from chosen
),

thresholds as (
    select run_id, class, max(action) as most_action
    from places
    where place <= $k
    group by run_id, class
),

ranked as (
    select
        chosen.*,
        row_number() over (
            partition by chosen.run_id, chosen.class order by chosen.action, chosen.sample_id
        ) as easiness_rank
    from chosen
    inner join thresholds on chosen.run_id = thresholds.run_id and chosen.class = thresholds.class
    where chosen.action <= thresholds.most_action
)

select run_id, split, easiness_rank, sample_id, label, prediction, action, action_mean, entropy, correctness
from ranked
where easiness_rank <= $k
order by run_id, class, easiness_rank
