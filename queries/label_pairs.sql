-- Which classes are taken for which: the suspects of an audit by their label and the label the model would give them.
--
-- reads    audits (run_id, split, label, suggested, chance_wrong, suspect), runs (run_id, dataset_digest),
--          samples (digest, label, label_name)
-- takes    $split   which split; train
-- returns  run_id, split, label, label_name, suggested, suggested_name, samples, share, chance_wrong
--          one row per run and pair that occurs, the most frequent first; share is of the run's suspects
--
-- suggested is NULL for samples that the model never took for another class, names where the data set's samples are not
-- at hand. A run that was not audited has no rows: type `actionflow audit RUN --log`.

with pairs as (
    select run_id, split, label, suggested, count(*) as samples, avg(chance_wrong) as chance_wrong
    from audits
    where suspect and split = $split
    group by run_id, split, label, suggested
),

totals as (
    select run_id, sum(samples) as samples
    from pairs
    group by run_id
),

class_names as (
    select digest, label, any_value(label_name) as label_name
    from samples
    where label_name is not null
    group by digest, label
)

select
    pairs.run_id,
    pairs.split,
    pairs.label,
    given.label_name,
    pairs.suggested,
    taken_for.label_name as suggested_name,
    pairs.samples,
    cast(pairs.samples as double) / totals.samples as share,
    pairs.chance_wrong
from pairs
inner join totals on pairs.run_id = totals.run_id
left join runs on pairs.run_id = runs.run_id
left join class_names as given on runs.dataset_digest = given.digest and pairs.label = given.label
left join class_names as taken_for on runs.dataset_digest = taken_for.digest and pairs.suggested = taken_for.label
order by pairs.run_id, pairs.samples desc, pairs.label, pairs.suggested nulls last
