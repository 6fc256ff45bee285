-- How far every two runs agree on which samples are hard: correlation of action for all pairs of runs.
--
-- reads    runs (run_id, name, dataset_digest, model), scores (run_id, split, sample_id, action)
-- takes    $split   which split; val
-- returns  run_a, run_b, name_a, name_b, model_a, model_b, baseline, samples, left_out, pearson, spearman
--          one row per pair of runs on the same data set, pairs of different models first
--
-- baseline marks two runs of the same model: what agreement mere chance of training leaves.
-- Only samples count that both runs recorded with a finite action; left_out is how many others the two have.
-- Ranks are taken once in each run, so spearman is exact where both runs recorded the same samples; run_correlation is
-- exact for any two runs, and tells intervals and classes.

with trainings as (
    select
        run_id,
        name,
        model,
        coalesce(dataset_digest, '') as digest,
        cast(row_number() over (order by model nulls last, name nulls last, run_id) as smallint) as run_number
    from runs
),

recorded as (
    select trainings.run_number, count(*) as samples
    from scores
    inner join trainings on scores.run_id = trainings.run_id
    where scores.split = $split
    group by trainings.run_number
),

-- A rank is twice the mean place of the ties: the first of their places plus the last.
ranks as (
    select
        trainings.run_number,
        scores.sample_id,
        scores.action,
        rank() over (partition by trainings.run_number order by scores.action)
            + count(*) over (partition by trainings.run_number order by scores.action) as hardness
    from scores
    inner join trainings on scores.run_id = trainings.run_id
    where scores.split = $split and abs(scores.action) < cast('infinity' as double)
),

pairs as (
    select a.run_number as number_a, b.run_number as number_b
    from trainings as a
    inner join trainings as b on a.digest = b.digest and a.run_number < b.run_number
),

correlations as (
    select
        pairs.number_a,
        pairs.number_b,
        count(*) as samples,
        covar_pop(a.action, b.action) / nullif(stddev_pop(a.action) * stddev_pop(b.action), 0) as pearson,
        covar_pop(a.hardness, b.hardness) / nullif(stddev_pop(a.hardness) * stddev_pop(b.hardness), 0) as spearman
    from pairs
    inner join ranks as a on pairs.number_a = a.run_number
    inner join ranks as b on pairs.number_b = b.run_number and a.sample_id = b.sample_id
    group by pairs.number_a, pairs.number_b
)

select
    a.run_id as run_a,
    b.run_id as run_b,
    a.name as name_a,
    b.name as name_b,
    a.model as model_a,
    b.model as model_b,
    coalesce(a.model = b.model, false) as baseline,
    coalesce(correlations.samples, 0) as samples,
    recorded_a.samples + recorded_b.samples - 2 * coalesce(correlations.samples, 0) as left_out,
    correlations.pearson,
    correlations.spearman
from pairs
inner join trainings as a on pairs.number_a = a.run_number
inner join trainings as b on pairs.number_b = b.run_number
inner join recorded as recorded_a on pairs.number_a = recorded_a.run_number
inner join recorded as recorded_b on pairs.number_b = recorded_b.run_number
left join correlations on pairs.number_a = correlations.number_a and pairs.number_b = correlations.number_b
order by baseline, pairs.number_a, pairs.number_b
