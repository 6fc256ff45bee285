-- How stable the hardest samples are: the overlap of the hardest percent over runs, of each model and of all.
--
-- reads    runs (run_id, dataset, dataset_digest, model), scores (run_id, split, sample_id, action)
-- takes    $split     which split; val
--          $percent   how many percent of the samples are called hardest; 10
-- returns  dataset, model, runs, samples, hardest, in_any, in_all, overlap, by_chance
--          one row per data set and model, then one per data set with model 'all'
--
-- hardest is the mean number in one run, its count rounded to the nearest, halves up, and at least 1; in_any and in_all
-- are hardest in at least one run and in every run. overlap is the share of one run's hardest that another run has too,
-- the mean over all pairs of runs (NULL for a single run); by_chance is what runs that know nothing of each other would
-- share. Ties go by sample_id; an action that is not a number is the hardest.

with trainings as (
    select
        run_id,
        dataset,
        coalesce(dataset_digest, '') as digest,
        coalesce(model, 'unknown') as model,
        cast(row_number() over (order by run_id) as smallint) as run_number
    from runs
),

placed as (
    select
        trainings.run_number,
        scores.sample_id,
        row_number() over (
            partition by trainings.run_number order by scores.action desc, scores.sample_id
        ) as place,
        count(*) over (partition by trainings.run_number) as samples
    from scores
    inner join trainings on scores.run_id = trainings.run_id
    where scores.split = $split
),

hardest as (
    select run_number, sample_id
    from placed
    where place <= greatest(1, floor(samples * $percent / 100 + 0.5))
),

groups as (
    select run_number, digest, model
    from trainings
    union all
    select run_number, digest, 'all' as model
    from trainings
),

group_sizes as (
    select
        groups.digest,
        groups.model,
        count(*) as runs,
        max(sizes.samples) as samples
    from groups
    inner join (select run_number, count(*) as samples from placed group by run_number) as sizes
        on groups.run_number = sizes.run_number
    group by groups.digest, groups.model
),

votes as (
    select groups.digest, groups.model, hardest.sample_id, count(*) as votes
    from hardest
    inner join groups on hardest.run_number = groups.run_number
    group by groups.digest, groups.model, hardest.sample_id
),

shared as (
    select
        group_sizes.digest,
        group_sizes.model,
        group_sizes.runs,
        group_sizes.samples,
        sum(votes.votes) / group_sizes.runs as hardest,
        count(*) as in_any,
        count(case when votes.votes = group_sizes.runs then 1 end) as in_all,
        sum(votes.votes * (votes.votes - 1)) / nullif(sum(votes.votes) * (group_sizes.runs - 1), 0) as overlap
    from votes
    inner join group_sizes on votes.digest = group_sizes.digest and votes.model = group_sizes.model
    group by group_sizes.digest, group_sizes.model, group_sizes.runs, group_sizes.samples
),

datasets as (
    select digest, max(dataset) as dataset
    from trainings
    group by digest
)

select
    datasets.dataset,
    shared.model,
    shared.runs,
    shared.samples,
    shared.hardest,
    shared.in_any,
    shared.in_all,
    shared.overlap,
    shared.hardest / shared.samples as by_chance
from shared
inner join datasets on shared.digest = datasets.digest
order by datasets.dataset, datasets.digest, case when shared.model = 'all' then 1 else 0 end, shared.model
