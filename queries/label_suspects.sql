-- The samples whose label is most likely wrong, with the label that the model would give them.
--
-- reads    scores (run_id, split, sample_id, label, aum, confidence, correctness, action, action_mean),
--          dynamics (run_id, split, epoch, sample_id, prediction)
-- takes    $split      which split; val
--          $by         what makes a suspect, aum, confidence or action; aum
--          $k          how many samples of each run; 10
--          $no_class   a class that is nobody's, whose samples are passed over and that is never suggested; -1
-- returns  run_id, split, suspect_rank, sample_id, label, suggested, aum, confidence, correctness, action, action_mean
--          at most k rows per run, the most suspicious first
--
-- Suspicious is a low area under the margin (another class won on average over training), a low self confidence (the
-- mean probability of the given label), or a high mean action. Ties go by sample_id; what is not a number comes last, and
-- what has no label is left out.
-- suggested is the class, other than the label, that the model took the sample for in most epochs (of several, the one
-- it came to last): its last prediction may be a wrong label that it has learnt by heart. NULL where there is none.

with chosen as (
    select
        run_id,
        split,
        sample_id,
        label,
        aum,
        confidence,
        correctness,
        action,
        action_mean,
        case $by
            when 'aum' then aum
            when 'confidence' then confidence
            when 'action' then -action_mean
            else assert_true(false, concat('suspects go by aum, confidence or action, not by ', $by))
        end as trust
    from scores
    where split = $split and label <> $no_class
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
),

suspects as (
    select * from ranked where suspect_rank <= $k
),

votes as (
    select
        suspects.run_id,
        suspects.sample_id,
        dynamics.prediction,
        count(*) as epochs,
        max(dynamics.epoch) as last_epoch
    from suspects
    inner join dynamics on suspects.run_id = dynamics.run_id and suspects.sample_id = dynamics.sample_id
    where
        dynamics.split = $split
        and dynamics.prediction <> suspects.label
        and dynamics.prediction <> $no_class
    group by suspects.run_id, suspects.sample_id, dynamics.prediction
),

ordered_votes as (
    select
        *,
        row_number() over (partition by run_id, sample_id order by epochs desc, last_epoch desc, prediction) as place
    from votes
),

suggestions as (
    select run_id, sample_id, prediction as suggested from ordered_votes where place = 1
)

select
    suspects.run_id,
    suspects.split,
    suspects.suspect_rank,
    suspects.sample_id,
    suspects.label,
    suggestions.suggested,
    suspects.aum,
    suspects.confidence,
    suspects.correctness,
    suspects.action,
    suspects.action_mean
from suspects
left join suggestions on suspects.run_id = suggestions.run_id and suspects.sample_id = suggestions.sample_id
order by suspects.run_id, suspects.suspect_rank
