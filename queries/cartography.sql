-- The map of a data set: which samples are easy, ambiguous or hard to learn, by confidence and variability.
--
-- reads    scores (run_id, split, sample_id, label, confidence, variability, correctness)
-- takes    $split       which split; val
--          $ambiguous   the share of samples called ambiguous; 0.33 as in the paper on cartography
-- returns  run_id, split, sample_id, label, confidence, variability, correctness, region
--          one row per run and sample, in no order of their own
--
-- Ambiguous are the samples at or above the (1 - $ambiguous) quantile of the run's variability; of the others, those
-- of mean confidence one half or more are easy, the rest hard. Ties at the quantile make more samples ambiguous.
-- A sample without confidence, or with one that is not a number, has no region (NULL).

with thresholds as (
    select run_id, percentile_cont(1 - $ambiguous) within group (order by variability) as least_variability
    from scores
    where split = $split and not isnan(variability)
    group by run_id
)

select
    scores.run_id,
    scores.split,
    scores.sample_id,
    scores.label,
    scores.confidence,
    scores.variability,
    scores.correctness,
    case
        when isnan(scores.confidence) or isnan(scores.variability) then null
        when scores.variability >= thresholds.least_variability then 'ambiguous'
        when scores.confidence >= 0.5 then 'easy'
        when scores.confidence < 0.5 then 'hard'
    end as region
from scores
left join thresholds on scores.run_id = thresholds.run_id
where scores.split = $split
