-- How hard each class is: its accuracy, and mean and quantiles of the action of its samples.
--
-- reads    scores (run_id, split, label, correct, action), runs (run_id, dataset_digest),
--          samples (digest, label, label_name)
-- takes    $split   which split; val
-- returns  run_id, split, label, label_name, samples, accuracy, mean_action, action_p10, action_p50,
--          action_p90, not_finite
--          one row per run and class, hardest class first
--
-- Actions that are not finite are counted in not_finite, make the mean so, and stand above all others in the quantiles.
-- The name of a class is NULL where the data set's samples are not at hand.

with classes as (
    select
        run_id,
        split,
        label,
        count(*) as samples,
        avg(cast(correct as int)) as accuracy,
        avg(action) as mean_action,
        percentile_cont(0.1) within group (order by action) as action_p10,
        percentile_cont(0.5) within group (order by action) as action_p50,
        percentile_cont(0.9) within group (order by action) as action_p90,
        count(case when not abs(action) < cast('infinity' as double) then 1 end) as not_finite
    from scores
    where split = $split
    group by run_id, split, label
),

class_names as (
    select digest, label, any_value(label_name) as label_name
    from samples
    where label_name is not null
    group by digest, label
)

select
    classes.run_id,
    classes.split,
    classes.label,
    class_names.label_name,
    classes.samples,
    classes.accuracy,
    classes.mean_action,
    classes.action_p10,
    classes.action_p50,
    classes.action_p90,
    classes.not_finite
from classes
left join runs on classes.run_id = runs.run_id
left join class_names on runs.dataset_digest = class_names.digest and classes.label = class_names.label
order by classes.run_id, classes.mean_action desc, classes.label nulls last
