-- Does action say more than entropy? How the two go together over the samples of each run.
--
-- reads    scores (run_id, split, action, entropy)
-- takes    $split     which split; val
--          $hard      from which normalised action on a sample counts as hard; 0.5
--          $certain   below which normalised entropy the model counts as certain; 0.1
-- returns  run_id, split, samples, left_out, pearson, spearman, hard, hard_and_certain, action_low, action_high,
--          entropy_low, entropy_high
--          one row per run
--
-- hard_and_certain counts the hard samples that entropy would have passed over: the model was sure of them to the end.
-- Normalised is (x - low) / (high - low) of the run, which changes no correlation; score_vs_score with $normalised = 1
-- gives the points. left_out samples have an action or an entropy that is missing or not finite.

with pairs as (
    select
        run_id,
        action,
        cast(entropy as double) as entropy,
        coalesce(
            abs(action) < cast('infinity' as double) and abs(entropy) < cast('infinity' as double), false
        ) as counts
    from scores
    where split = $split
),

recorded as (
    select run_id, count(*) as samples
    from pairs
    group by run_id
),

spans as (
    select
        run_id,
        min(action) as action_low,
        max(action) as action_high,
        min(entropy) as entropy_low,
        max(entropy) as entropy_high
    from pairs
    where counts
    group by run_id
),

-- A rank is twice the mean place of the ties: the first of their places plus the last.
ranks as (
    select
        pairs.run_id,
        pairs.action,
        pairs.entropy,
        (pairs.action - spans.action_low) / nullif(spans.action_high - spans.action_low, 0) >= $hard as is_hard,
        (pairs.entropy - spans.entropy_low)
            / nullif(spans.entropy_high - spans.entropy_low, 0) < $certain as is_certain,
        rank() over (partition by pairs.run_id order by pairs.action)
            + count(*) over (partition by pairs.run_id order by pairs.action) as action_rank,
        rank() over (partition by pairs.run_id order by pairs.entropy)
            + count(*) over (partition by pairs.run_id order by pairs.entropy) as entropy_rank
    from pairs
    inner join spans on pairs.run_id = spans.run_id
    where pairs.counts
),

correlations as (
    select
        run_id,
        count(*) as samples,
        covar_pop(action, entropy) / nullif(stddev_pop(action) * stddev_pop(entropy), 0) as pearson,
        covar_pop(action_rank, entropy_rank)
            / nullif(stddev_pop(action_rank) * stddev_pop(entropy_rank), 0) as spearman,
        count(case when is_hard then 1 end) as hard,
        count(case when is_hard and is_certain then 1 end) as hard_and_certain
    from ranks
    group by run_id
)

select
    recorded.run_id,
    $split as split,
    coalesce(correlations.samples, 0) as samples,
    recorded.samples - coalesce(correlations.samples, 0) as left_out,
    correlations.pearson,
    correlations.spearman,
    coalesce(correlations.hard, 0) as hard,
    coalesce(correlations.hard_and_certain, 0) as hard_and_certain,
    spans.action_low,
    spans.action_high,
    spans.entropy_low,
    spans.entropy_high
from recorded
left join correlations on recorded.run_id = correlations.run_id
left join spans on recorded.run_id = spans.run_id
order by recorded.run_id
