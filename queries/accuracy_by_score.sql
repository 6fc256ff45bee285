-- Accuracy in quantile bins of a score: how well the score tells what the model gets wrong.
--
-- reads    scores (run_id, split, correct, and the score)
-- takes    $split   which split; val
--          $score   which score; action
--                   of action, action_mean, action_variance, last_loss, entropy, confidence, variability, correctness,
--                   aum, forgetting, el2n
--          $bins    how many bins; 10
-- returns  run_id, split, score, bin, samples, score_low, score_high, score_mean, accuracy
--          one row per run and bin that has samples; bin 1 has the lowest scores
--
-- With n samples in order of the score, the one that has m smaller ones falls into bin 1 + floor(m * bins / n): equal
-- scores share a bin, so a score with many ties has bins of unequal size, and some with no sample and no row.
-- A score that is not a number counts as the largest; samples without the score (NULL) are left out.
--
-- The runs are numbered because a window over a small number takes a quarter of the time of one over a run's id.

with run_numbers as (
    select run_id, cast(row_number() over (order by run_id) as smallint) as run_number
    from scores
    where split = $split
    group by run_id
),

valued as (
    select
        run_numbers.run_number,
        scores.correct,
        cast(case $score
            when 'action' then action
            when 'action_mean' then action_mean
            when 'action_variance' then action_variance
            when 'last_loss' then last_loss
            when 'entropy' then entropy
            when 'confidence' then confidence
            when 'variability' then variability
            when 'correctness' then correctness
            when 'aum' then aum
            when 'forgetting' then forgetting
            when 'el2n' then el2n
            else assert_true(false, concat('there is no score ', $score))
        end as double) as value
    from scores
    inner join run_numbers on scores.run_id = run_numbers.run_id
    where scores.split = $split
),

sizes as (
    select run_number, count(value) as samples
    from valued
    group by run_number
),

placed as (
    select run_number, correct, value, rank() over (partition by run_number order by value) as place
    from valued
    where value is not null
),

binned as (
    select
        placed.run_number,
        1 + cast(floor((placed.place - 1) * $bins / sizes.samples) as int) as bin,
        count(*) as samples,
        min(placed.value) as score_low,
        max(placed.value) as score_high,
        avg(placed.value) as score_mean,
        avg(cast(placed.correct as int)) as accuracy
    from placed
    inner join sizes on placed.run_number = sizes.run_number
    group by placed.run_number, 1 + cast(floor((placed.place - 1) * $bins / sizes.samples) as int)
)

select
    run_numbers.run_id,
    $split as split,
    $score as score,
    binned.bin,
    binned.samples,
    binned.score_low,
    binned.score_high,
    binned.score_mean,
    binned.accuracy
from binned
inner join run_numbers on binned.run_number = run_numbers.run_number
order by run_numbers.run_id, binned.bin
