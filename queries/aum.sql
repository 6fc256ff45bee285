-- The samples of each run with the least area under the margin: those whose label kept losing to another.
--
-- reads    scores (run_id, split, sample_id, label, prediction, aum, confidence, correctness, action)
-- takes    $split   which split; val
--          $k       how many samples of each run; 10
-- returns  run_id, split, aum_rank, sample_id, label, prediction, aum, confidence, correctness, action
--          at most k rows per run, least area first
--
-- The area is the mean over epochs of (logit of the label - largest other): below zero, another class won on average.
-- Ties go by sample_id. A task without classes has no margins and gives no rows.
--
-- First the k-th value, then the rows: engines find the k first by one column without a sort, not by two.

with chosen as (
    select
        run_id,
        split,
        sample_id,
        label,
        prediction,
        aum,
        confidence,
        correctness,
        action
    from scores
    where split = $split and aum is not null
),

places as (
    select run_id, aum, row_number() over (partition by run_id order by aum) as place
    from chosen
),

thresholds as (
    select run_id, max(aum) as most_aum
    from places
    where place <= $k
    group by run_id
),

ranked as (
    select
        chosen.*,
        row_number() over (
            partition by chosen.run_id order by chosen.aum, chosen.sample_id
        ) as aum_rank
    from chosen
    inner join thresholds on chosen.run_id = thresholds.run_id
    where chosen.aum <= thresholds.most_aum
)

select run_id, split, aum_rank, sample_id, label, prediction, aum, confidence, correctness, action
from ranked
where aum_rank <= $k
order by run_id, aum_rank
