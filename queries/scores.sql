-- Score every sample of each run and split: action and its kin, one row per sample.
--
-- reads    dynamics (run_id, split, epoch, sample_id, label, loss, prediction, correct, confidence, entropy, margin,
--          el2n, forgotten)
-- takes    $el2n_epochs   how many of the first epochs el2n is averaged over; 10
-- returns  run_id, split, sample_id, label, prediction, correct, epochs_seen, action, action_mean, action_variance,
--          last_loss, entropy, confidence, variability, correctness, aum, forgetting, ever_learnt, el2n
--          one row per run, split and sample
--
-- Action is a plain sum, so two runs compare only if they trained equally long: see action_mean.
-- A sample that was never predicted right has no forgetting (NULL) and ever_learnt = false.
-- A loss that is not finite makes the sample's sums NaN or infinite: it is to be seen, not averaged away.
--
-- One pass of sums over what may be 115 million rows. var_pop makes it a fifth slower than sums of squares would, and keeps
-- the digits that those lose when a sample's losses are nearly equal.

with collected as (
    select
        run_id,
        split,
        sample_id,
        max(label) as label,
        max_by(prediction, epoch) as prediction,
        count(*) as epochs_seen,
        sum(loss) as action,
        var_pop(loss) as action_variance,
        max_by(loss, epoch) as last_loss,
        max_by(entropy, epoch) as entropy,
        avg(confidence) as confidence,
        stddev_pop(confidence) as variability,
        avg(cast(correct as int)) as correctness,
        avg(margin) as aum,
        count(case when forgotten then 1 end) as times_forgotten,
        avg(case when epoch < $el2n_epochs then el2n end) as el2n
    from dynamics
    group by run_id, split, sample_id
)

select
    run_id,
    split,
    sample_id,
    label,
    prediction,
    prediction = label as correct,
    epochs_seen,
    action,
    action / epochs_seen as action_mean,
    action_variance,
    last_loss,
    entropy,
    confidence,
    variability,
    correctness,
    aum,
    case when correctness > 0 then times_forgotten end as forgetting,
    correctness > 0 as ever_learnt,
    el2n
from collected
order by run_id, split, sample_id
