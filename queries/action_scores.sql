-- Rank the samples of each run by action: the loss they collected over training.
--
-- reads    dynamics (run_id, split, epoch, sample_id, loss)
-- takes    $split     which split; val
--          $burn_in   epochs to skip at the start; 0 counts the whole run
-- returns  run_id, sample_id, epochs_seen, action, hardness_rank
--          one row per run and sample, hardest first
--
-- Action is a plain sum, so two runs compare only if they trained equally long: see action_mean.
-- A loss that is not finite makes the sample's action so, and puts it first.

with collected as (
    select run_id, sample_id, count(*) as epochs_seen, sum(loss) as action
    from dynamics
    where split = $split and epoch >= $burn_in
    group by run_id, sample_id
)

select *, rank() over (partition by run_id order by action desc) as hardness_rank
from collected
order by run_id, hardness_rank, sample_id
