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

placed as (
    select
        run_number,
        correct,
        value,
        rank() over (partition by run_number order by value nulls last) as place,
        count(value) over (partition by run_number) as samples
    from valued
),

binned as (
    select run_number, correct, value, 1 + cast(floor((place - 1) * $bins / samples) as int) as bin
    from placed
    where value is not null
)

select
    run_numbers.run_id,
    $split as split,
    $score as score,
    binned.bin,
    count(*) as samples,
    min(binned.value) as score_low,
    max(binned.value) as score_high,
    avg(binned.value) as score_mean,
    avg(cast(binned.correct as int)) as accuracy
from binned
inner join run_numbers on binned.run_number = run_numbers.run_number
group by run_numbers.run_id, binned.bin
order by run_numbers.run_id, binned.bin
