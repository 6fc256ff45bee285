-- The failure scenarios of each classifier: what it says there, what they were found around, what people call them.
--
-- reads    scenarios (run_id, distill_run, scenario, size, weight, source_label, source_share, prediction),
--          scenario_labels (distill_run, scenario, sample, answer, label, labelled_by), runs (run_id, dataset_digest),
--          samples (digest, label, label_name)
-- returns  run_id, distill_run, scenario, size, weight, prediction, prediction_name, source_label, source_name,
--          source_share, annotators, called_classes, called_none, called_fine, label, label_name
--          one row per distillation and scenario, in the order of their numbers
--
-- An annotator is counted by what they said of the whole scenario. label is the class that most of them gave, the
-- smallest where two are even, NULL without any; what single samples were called is in the view scenario_labels.

with answers as (
    select
        distill_run,
        scenario,
        count(distinct labelled_by) as annotators,
        sum(case when sample is null and answer = 'class' then 1 else 0 end) as called_classes,
        sum(case when sample is null and answer = 'none' then 1 else 0 end) as called_none,
        sum(case when sample is null and answer = 'fine' then 1 else 0 end) as called_fine
    from scenario_labels
    group by distill_run, scenario
),

votes as (
    select distill_run, scenario, label, count(*) as votes
    from scenario_labels
    where label is not null and sample is null
    group by distill_run, scenario, label
),

ranked as (
    select
        distill_run,
        scenario,
        label,
        row_number() over (partition by distill_run, scenario order by votes desc, label) as place
    from votes
),

class_names as (
    select digest, label, max(label_name) as label_name
    from samples
    where label_name is not null
    group by digest, label
)

select
    scenarios.run_id,
    scenarios.distill_run,
    scenarios.scenario,
    scenarios.size,
    scenarios.weight,
    scenarios.prediction,
    says.label_name as prediction_name,
    scenarios.source_label,
    found_around.label_name as source_name,
    scenarios.source_share,
    coalesce(answers.annotators, 0) as annotators,
    coalesce(answers.called_classes, 0) as called_classes,
    coalesce(answers.called_none, 0) as called_none,
    coalesce(answers.called_fine, 0) as called_fine,
    ranked.label,
    called.label_name
from scenarios
left join answers on scenarios.distill_run = answers.distill_run and scenarios.scenario = answers.scenario
left join ranked
    on scenarios.distill_run = ranked.distill_run and scenarios.scenario = ranked.scenario and ranked.place = 1
left join runs on scenarios.run_id = runs.run_id
left join class_names as says on runs.dataset_digest = says.digest and scenarios.prediction = says.label
left join class_names as found_around
    on runs.dataset_digest = found_around.digest and scenarios.source_label = found_around.label
left join class_names as called on runs.dataset_digest = called.digest and ranked.label = called.label
order by scenarios.run_id, scenarios.distill_run, scenarios.scenario
