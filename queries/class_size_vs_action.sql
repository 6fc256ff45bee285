-- Are rare classes harder? The size of each class in training beside the mean action of its samples.
--
-- reads    scores (run_id, split, sample_id, label, correct, action), runs (run_id, dataset_digest),
--          samples (digest, part, sample_id, label, label_name)
-- takes    $split   whose samples are judged; val
-- returns  run_id, split, label, label_name, training_samples, samples, accuracy, mean_action, pearson, spearman
--          one row per run and class, the largest class first
--
-- pearson and spearman tell how the classes' size and mean action go together, and say the same in every row of a run:
-- below zero, rare classes are harder. Few classes make a correlation that chance can make too.
-- training_samples counts the split train where the run recorded it, else those of the data set's part train that no
-- split recorded; NULL where neither is at hand. A mean that is not finite is shown and not correlated.

with judged as (
    select
        run_id,
        label,
        count(*) as samples,
        avg(cast(correct as int)) as accuracy,
        avg(action) as mean_action
    from scores
    where split = $split and label is not null
    group by run_id, label
),

trained as (
    select run_id, label, count(*) as training_samples
    from scores
    where split = 'train' and label is not null
    group by run_id, label
),

-- Runs that recorded no training: what their data set had for it.
silent as (
    select runs.run_id, runs.dataset_digest as digest
    from runs
    left join (select distinct run_id from trained) as spoken on runs.run_id = spoken.run_id
    where spoken.run_id is null
),

offered as (
    select silent.run_id, samples.label, count(distinct samples.sample_id) as training_samples
    from silent
    inner join samples on silent.digest = samples.digest
    left join scores on silent.run_id = scores.run_id and samples.sample_id = scores.sample_id
    where samples.part = 'train' and samples.label is not null and scores.sample_id is null
    group by silent.run_id, samples.label
),

sizes as (
    select run_id, label, training_samples from trained
    union all
    select run_id, label, training_samples from offered
),

class_names as (
    select digest, label, max(label_name) as label_name
    from samples
    where label_name is not null
    group by digest, label
),

classes as (
    select
        judged.run_id,
        judged.label,
        class_names.label_name,
        sizes.training_samples,
        judged.samples,
        judged.accuracy,
        judged.mean_action
    from judged
    left join sizes on judged.run_id = sizes.run_id and judged.label = sizes.label
    left join runs on judged.run_id = runs.run_id
    left join class_names on runs.dataset_digest = class_names.digest and judged.label = class_names.label
),

-- A rank is twice the mean place of the ties: the first of their places plus the last.
ranks as (
    select
        run_id,
        cast(training_samples as double) as class_size,
        mean_action,
        rank() over (partition by run_id order by training_samples)
            + count(*) over (partition by run_id order by training_samples) as size_rank,
        rank() over (partition by run_id order by mean_action)
            + count(*) over (partition by run_id order by mean_action) as action_rank
    from classes
    where training_samples is not null and abs(mean_action) < cast('infinity' as double)
),

correlations as (
    select
        run_id,
        covar_pop(class_size, mean_action) / nullif(stddev_pop(class_size) * stddev_pop(mean_action), 0) as pearson,
        covar_pop(size_rank, action_rank) / nullif(stddev_pop(size_rank) * stddev_pop(action_rank), 0) as spearman
    from ranks
    group by run_id
)

select
    classes.run_id,
    $split as split,
    classes.label,
    classes.label_name,
    classes.training_samples,
    classes.samples,
    classes.accuracy,
    classes.mean_action,
    correlations.pearson,
    correlations.spearman
from classes
left join correlations on classes.run_id = correlations.run_id
order by classes.run_id, classes.training_samples desc nulls last, classes.label
