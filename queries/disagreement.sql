-- The samples on which two runs disagree most: hard for one, easy for the other.
--
-- reads    scores (run_id, split, sample_id, label, prediction, action)
-- takes    $run_a   the id of one run
--          $run_b   the id of the other
--          $split   which split; val
--          $k       how many samples in each direction; 10
-- returns  harder_for, disagreement_rank, sample_id, label, prediction_a, prediction_b, action_a, action_b, hardness_a,
--          hardness_b, gap
--          at most k rows for each of the two runs, the widest gap first
--
-- hardness is the share of the other samples that are easier, from 0 (the easiest) to 1 (the hardest), so that runs of
-- unequal length compare. Only samples that both runs recorded count; an action that is not a number is the hardest.

with pairs as (
    select a.sample_id, a.action as action_a, b.action as action_b
    from scores as a
    inner join scores as b on a.sample_id = b.sample_id
    where a.run_id = $run_a and b.run_id = $run_b and a.split = $split and b.split = $split
),

placed as (
    select
        sample_id,
        percent_rank() over (order by action_a) as hardness_a,
        percent_rank() over (order by action_b) as hardness_b
    from pairs
    where action_a is not null and action_b is not null
),

ranked as (
    select
        sample_id,
        hardness_a,
        hardness_b,
        hardness_a > hardness_b as harder_for_a,
        row_number() over (
            partition by hardness_a > hardness_b order by abs(hardness_a - hardness_b) desc, sample_id
        ) as disagreement_rank
    from placed
    where hardness_a <> hardness_b
)

select
    case when ranked.harder_for_a then $run_a else $run_b end as harder_for,
    ranked.disagreement_rank,
    ranked.sample_id,
    a.label,
    a.prediction as prediction_a,
    b.prediction as prediction_b,
    a.action as action_a,
    b.action as action_b,
    ranked.hardness_a,
    ranked.hardness_b,
    abs(ranked.hardness_a - ranked.hardness_b) as gap
from ranked
inner join scores as a on ranked.sample_id = a.sample_id and a.run_id = $run_a and a.split = $split
inner join scores as b on ranked.sample_id = b.sample_id and b.run_id = $run_b and b.split = $split
where ranked.disagreement_rank <= $k
order by ranked.harder_for_a desc, ranked.disagreement_rank
