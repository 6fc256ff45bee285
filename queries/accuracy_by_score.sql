-- Accuracy in quantile bins of a score: how well the score tells what the model gets wrong.
--
-- reads    scores (run_id, split, correct, and the score)
-- takes    $split   which split; val
--          $score   which score; action
--                   of action, action_mean, action_variance, last_loss, entropy, confidence, variability, correctness,
--                   aum, forgetting, el2n, vog, vog_early, vog_late, grand
--          $bins    how many bins; 10
-- returns  run_id, split, score, bin, samples, score_low, score_high, score_mean, accuracy
--          one row per run and bin that has samples; bin 1 has the lowest scores
--
-- With n samples in order of the score, the one that has m smaller ones falls into bin 1 + floor(m * bins / n): equal
-- scores share a bin, so a score with many ties has bins of unequal size, and some with no sample and no row.
-- A score that is not a number counts as the largest; samples without the score (NULL) are left out.
--
-- A million samples need no sort: a grid over the score counts them, and only cells that an edge crosses are sorted.

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
            when 'vog' then vog
            when 'vog_early' then vog_early
            when 'vog_late' then vog_late
            when 'grand' then grand
            else assert_true(false, concat('there is no score ', $score))
        end as double) as value
    from scores
    inner join run_numbers on scores.run_id = run_numbers.run_id
    where scores.split = $split
),

spans as (
    select
        run_number,
        count(value) as samples,
        min(case when abs(value) < cast('infinity' as double) then value end) as lowest,
        max(case when abs(value) < cast('infinity' as double) then value end) as highest
    from valued
    group by run_number
),

-- Cells are narrower where the score is low: there the samples crowd. What is not finite has cells of its own.
gridded as (
    select
        valued.run_number,
        valued.correct,
        valued.value,
        case
            when isnan(valued.value) then 4098
            when valued.value = cast('infinity' as double) then 4097
            when valued.value = cast('-infinity' as double) then -1
            else coalesce(cast(floor(4096 * sqrt(sqrt(
                (valued.value - spans.lowest) / nullif(spans.highest - spans.lowest, 0)
            ))) as int), 0)
        end as cell
    from valued
    inner join spans on valued.run_number = spans.run_number
    where valued.value is not null
),

cells as (
    select
        run_number,
        cell,
        count(*) as samples,
        min(value) as score_low,
        max(value) as score_high,
        sum(value) as total,
        count(correct) as judged,
        count(case when correct then 1 end) as hits
    from gridded
    group by run_number, cell
),

counted as (
    select *, sum(samples) over (partition by run_number order by cell) - samples as below
    from cells
),

-- The bins of a cell's lowest and highest place; a cell of equal scores goes by its lowest.
edges as (
    select
        counted.*,
        spans.samples as run_samples,
        floor(counted.below * $bins / spans.samples) as first_bin,
        floor((counted.below + counted.samples - 1) * $bins / spans.samples) as last_bin
    from counted
    inner join spans on counted.run_number = spans.run_number
),

crossed as (
    select
        gridded.run_number,
        gridded.correct,
        gridded.value,
        floor((
            edges.below - 1 + rank() over (partition by gridded.run_number, gridded.cell order by gridded.value)
        ) * $bins / edges.run_samples) as bin
    from gridded
    inner join edges on gridded.run_number = edges.run_number and gridded.cell = edges.cell
    where edges.first_bin <> edges.last_bin and edges.score_low <> edges.score_high
),

pieces as (
    select run_number, first_bin as bin, samples, score_low, score_high, total, judged, hits
    from edges
    where first_bin = last_bin or score_low = score_high
    union all
    select
        run_number,
        bin,
        count(*),
        min(value),
        max(value),
        sum(value),
        count(correct),
        count(case when correct then 1 end)
    from crossed
    group by run_number, bin
)

select
    run_numbers.run_id,
    $split as split,
    $score as score,
    1 + cast(pieces.bin as int) as bin,
    cast(sum(pieces.samples) as bigint) as samples,
    min(pieces.score_low) as score_low,
    max(pieces.score_high) as score_high,
    sum(pieces.total) / sum(pieces.samples) as score_mean,
    sum(pieces.hits) / nullif(sum(pieces.judged), 0) as accuracy
from pieces
inner join run_numbers on pieces.run_number = run_numbers.run_number
group by run_numbers.run_id, pieces.bin
order by run_numbers.run_id, pieces.bin
