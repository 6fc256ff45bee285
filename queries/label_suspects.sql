-- The samples whose label is most likely wrong, with the label that the model would give them.
--
-- reads    scores (run_id, split, sample_id, label, prediction, aum, confidence, correctness, action)
-- takes    $split   which split; val
--          $by      what makes a suspect, aum or confidence; aum
--          $k       how many samples of each run; 10
-- returns  run_id, split, suspect_rank, sample_id, label, suggested, aum, confidence, correctness, action
--          at most k rows per run, the most suspicious first
--
-- Suspicious is a low area under the margin (another class won on average over training), or a low self confidence (the
-- mean probability of the given label). Ties go by sample_id; what is not a number comes last.
-- suggested is the last prediction, and NULL where the model has come to agree with the label: on samples it trained on
-- it may have learnt the wrong label by heart.

with chosen as (
    select
        run_id,
        split,
        sample_id,
        label,
        case when prediction <> label then prediction end as suggested,
        aum,
        confidence,
        correctness,
        action,
        case $by
            when 'aum' then aum
            when 'confidence' then confidence
            else assert_true(false, concat('suspects go by aum or confidence, not by ', $by))
        end as trust
    from scores
    where split = $split
),

places as (
    select run_id, trust, row_number() over (partition by run_id order by trust) as place
    from chosen
    where trust is not null
),

thresholds as (
    select run_id, max(trust) as most_trust
    from places
    where place <= $k
    group by run_id
),

ranked as (
    select
        chosen.*,
        row_number() over (partition by chosen.run_id order by chosen.trust, chosen.sample_id) as suspect_rank
    from chosen
    inner join thresholds on chosen.run_id = thresholds.run_id
    where chosen.trust <= thresholds.most_trust
)

select run_id, split, suspect_rank, sample_id, label, suggested, aum, confidence, correctness, action
from ranked
where suspect_rank <= $k
order by run_id, suspect_rank
