-- The hardest samples of each run and split: those that collected the most loss.
--
-- reads    scores (run_id, split, sample_id, label, prediction, action, action_mean, entropy, correctness)
-- takes    $split   which split; val
--          $k       how many samples of each run; 10
-- returns  run_id, split, hardness_rank, sample_id, label, prediction, action, action_mean, entropy, correctness
--          at most k rows per run, hardest first

with ranked as (
    select
        run_id,
        split,
        row_number() over (partition by run_id order by action desc, sample_id) as hardness_rank,
        sample_id,
        label,
        prediction,
        action,
        action_mean,
        entropy,
        correctness
    from scores
    where split = $split
)

select *
from ranked
where hardness_rank <= $k
order by run_id, hardness_rank
