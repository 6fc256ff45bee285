-- How far two runs agree on which samples are hard: Pearson and Spearman correlation of their action.
--
-- reads    scores (run_id, split, sample_id, action)
-- takes    $run_a   the id of one run
--          $run_b   the id of the other
--          $split   which split; val
-- returns  run_a, run_b, split, samples, pearson, spearman
--          one row; only samples that both runs recorded count
--
-- Ties share their mean rank, as in scipy.stats.spearmanr.

with pairs as (
    select a.split, a.action as action_a, b.action as action_b
    from scores as a
    inner join scores as b on a.split = b.split and a.sample_id = b.sample_id
    where a.run_id = $run_a and b.run_id = $run_b and a.split = $split
),

ranks as (
    select
        split,
        action_a,
        action_b,
        rank() over (order by action_a) + (count(*) over (partition by action_a) - 1) / 2.0 as rank_a,
        rank() over (order by action_b) + (count(*) over (partition by action_b) - 1) / 2.0 as rank_b
    from pairs
)

select
    $run_a as run_a,
    $run_b as run_b,
    $split as split,
    count(*) as samples,
    corr(action_a, action_b) as pearson,
    corr(rank_a, rank_b) as spearman
from ranks
