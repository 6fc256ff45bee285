-- The samples of each run that were forgotten most often: right in one epoch, wrong in the next.
--
-- reads    scores (run_id, split, sample_id, label, prediction, forgetting, correctness, action, ever_learnt)
-- takes    $split   which split; val
--          $k       how many samples of each run; 10
-- returns  run_id, split, forgetting_rank, sample_id, label, prediction, forgetting, correctness, action
--          at most k rows per run, most forgotten first
--
-- A sample that was never right has nothing to forget and is not here: ask for `not ever_learnt` in scores.
-- Ties go by action, the hardest first, then by sample_id.
--
-- First the k-th value, then the rows: engines find the k first by one column without a sort, not by two.

with chosen as (
    select
        run_id,
        split,
        sample_id,
        label,
        prediction,
        forgetting,
        correctness,
        action
    from scores
    where split = $split and ever_learnt
),

places as (
    select run_id, forgetting, row_number() over (partition by run_id order by forgetting desc) as place
    from chosen
),

thresholds as (
    select run_id, min(forgetting) as least_forgetting
    from places
    where place <= $k
    group by run_id
),

ranked as (
    select
        chosen.*,
        row_number() over (
            partition by chosen.run_id order by chosen.forgetting desc, chosen.action desc, chosen.sample_id
        ) as forgetting_rank
    from chosen
    inner join thresholds on chosen.run_id = thresholds.run_id
    where chosen.forgetting >= thresholds.least_forgetting
)

select run_id, split, forgetting_rank, sample_id, label, prediction, forgetting, correctness, action
from ranked
where forgetting_rank <= $k
order by run_id, forgetting_rank
