-- Score every sample of each run and split: action and its kin, one row per sample.
--
-- reads    dynamics (run_id, split, epoch, sample_id, label, loss, prediction, correct, confidence, entropy, margin, el2n, forgotten)
-- takes    $el2n_epochs   how many of the first epochs el2n is averaged over; 10
-- returns  run_id, split, sample_id, label, prediction, correct, epochs_seen, action, action_mean, action_variance,
--          last_loss, entropy, confidence, variability, correctness, aum, forgetting, ever_learnt, el2n
--          one row per run, split and sample
--
-- Action is a plain sum, so two runs compare only if they trained equally long: see action_mean.
-- A sample that was never predicted right has no forgetting (NULL) and ever_learnt = false.

with collected as (
    select
        run_id,
        split,
        sample_id,
        max(label) as label,
        arg_max(prediction, epoch) as prediction,
        count(*) as epochs_seen,
        sum(loss) as action,
        var_pop(loss) as action_variance,
        arg_max(loss, epoch) as last_loss,
        arg_max(entropy, epoch) as entropy,
        avg(confidence) as confidence,
        stddev_pop(confidence) as variability,
        count(correct) as epochs_judged,
        count(*) filter (where correct) as epochs_right,
        avg(margin) as aum,
        count(*) filter (where forgotten) as times_forgotten,
        avg(el2n) filter (where epoch < $el2n_epochs) as el2n
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
    epochs_right * 1.0 / nullif(epochs_judged, 0) as correctness,
    aum,
    case when epochs_right > 0 then times_forgotten end as forgetting,
    case when epochs_judged > 0 then epochs_right > 0 end as ever_learnt,
    el2n
from collected
order by run_id, split, sample_id
