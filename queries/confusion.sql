-- Which class is taken for which: the samples of each class by what the last epoch predicted.
--
-- reads    scores (run_id, split, label, prediction, action), runs (run_id, dataset_digest),
--          samples (digest, label, label_name)
-- takes    $split   which split; val
-- returns  run_id, split, label, label_name, prediction, prediction_name, samples, share, mean_action
--          one row per run, class and prediction that occurs; share is of the class
--
-- A pair that never occurs has no row. Names are NULL where the data set's samples are not at hand.

with cells as (
    select run_id, split, label, prediction, count(*) as samples, avg(action) as mean_action
    from scores
    where split = $split and label is not null and prediction is not null
    group by run_id, split, label, prediction
),

class_sizes as (
    select run_id, label, sum(samples) as samples
    from cells
    group by run_id, label
),

class_names as (
    select digest, label, any_value(label_name) as label_name
    from samples
    where label_name is not null
    group by digest, label
)

select
    cells.run_id,
    cells.split,
    cells.label,
    named.label_name,
    cells.prediction,
    taken_for.label_name as prediction_name,
    cells.samples,
    cast(cells.samples as double) / class_sizes.samples as share,
    cells.mean_action
from cells
inner join class_sizes on cells.run_id = class_sizes.run_id and cells.label = class_sizes.label
left join runs on cells.run_id = runs.run_id
left join class_names as named on runs.dataset_digest = named.digest and cells.label = named.label
left join class_names as taken_for on runs.dataset_digest = taken_for.digest and cells.prediction = taken_for.label
order by cells.run_id, cells.label, cells.prediction
