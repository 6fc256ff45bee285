-- Does action say more than entropy? How the two go together over the samples of each run.
--
-- reads    scores (run_id, split, entropy, and the score)
-- takes    $split     which split; val
--          $score     what is held against entropy: action, action_mean, action_variance or last_loss; action
--          $hard      from which normalised score on a sample counts as hard; 0.5
--          $certain   below which normalised entropy the model counts as certain; 0.1
-- returns  run_id, split, score, samples, left_out, pearson, spearman, hard, hard_and_certain, score_low, score_high,
--          entropy_low, entropy_high
--          one row per run
--
-- hard_and_certain counts the hard samples that entropy would have passed over: the model was sure of them to the end.
-- Normalised is (x - low) / (high - low) of the run, which changes no correlation; score_vs_score with $normalised = 1
-- gives the points. left_out samples have a score or an entropy that is missing or not finite.

with valued as (
    select
        run_id,
        cast(case $score
            when 'action' then action
            when 'action_mean' then action_mean
            when 'action_variance' then action_variance
            when 'last_loss' then last_loss
            else assert_true(false, concat('there is no score ', $score, ' to hold against entropy'))
        end as double) as value,
        cast(entropy as double) as entropy
    from scores
    where split = $split
),

pairs as (
    select
        run_id,
        value,
        entropy,
        coalesce(
            abs(value) < cast('infinity' as double) and abs(entropy) < cast('infinity' as double), false
        ) as counts
    from valued
),

recorded as (
    select run_id, count(*) as samples
    from pairs
    group by run_id
),

spans as (
    select
        run_id,
        min(value) as score_low,
        max(value) as score_high,
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
        pairs.value,
        pairs.entropy,
        (pairs.value - spans.score_low) / nullif(spans.score_high - spans.score_low, 0) >= $hard as is_hard,
        (pairs.entropy - spans.entropy_low)
            / nullif(spans.entropy_high - spans.entropy_low, 0) < $certain as is_certain,
        rank() over (partition by pairs.run_id order by pairs.value)
            + count(*) over (partition by pairs.run_id order by pairs.value) as value_rank,
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
        covar_pop(value, entropy) / nullif(stddev_pop(value) * stddev_pop(entropy), 0) as pearson,
        covar_pop(value_rank, entropy_rank)
            / nullif(stddev_pop(value_rank) * stddev_pop(entropy_rank), 0) as spearman,
        count(case when is_hard then 1 end) as hard,
        count(case when is_hard and is_certain then 1 end) as hard_and_certain
    from ranks
    group by run_id
)

select
    recorded.run_id,
    $split as split,
    $score as score,
    coalesce(correlations.samples, 0) as samples,
    recorded.samples - coalesce(correlations.samples, 0) as left_out,
    correlations.pearson,
    correlations.spearman,
    coalesce(correlations.hard, 0) as hard,
    coalesce(correlations.hard_and_certain, 0) as hard_and_certain,
    spans.score_low,
    spans.score_high,
    spans.entropy_low,
    spans.entropy_high
from recorded
left join correlations on recorded.run_id = correlations.run_id
left join spans on recorded.run_id = spans.run_id
order by recorded.run_id
