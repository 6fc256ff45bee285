-- The most and the least difficult samples of each run, with what they say, what was asked for and what was predicted.
--
-- reads    scores (run_id, split, sample_id, label, prediction, action, entropy), runs (run_id, dataset_digest),
--          samples (digest, sample_id, key, label, label_name, text, context, target_text),
--          outputs (run_id, split, sample_id, predicted_text)
-- takes    $split   which split; val
--          $k       how many samples at either end; 5
-- returns  run_id, split, difficulty, place, sample_id, key, text, context, target, predicted, action, entropy
--          at most k rows per run for difficulty 'most', then as many for 'least'; place 1 is the extreme
--
-- target is the text that was asked for, else the name of the class, else its number; predicted is the text that the
-- model wrote, else the class it chose last. Pictures have a key and no text. What is not at hand is NULL.
-- Ties go by sample_id. An action that is not a number is the most difficult. Of fewer than 2 k samples, some stand in
-- both lists.
--
-- First the k-th value, then the rows: engines find the k first by one column without a sort, not by two.

with chosen as (
    select run_id, sample_id, label, prediction, action, entropy
    from scores
    where split = $split and action is not null
),

from_above as (
    select run_id, action, row_number() over (partition by run_id order by action desc) as place
    from chosen
),

from_below as (
    select run_id, action, row_number() over (partition by run_id order by action) as place
    from chosen
),

thresholds as (
    select run_id, 'most' as difficulty, min(action) as threshold
    from from_above
    where place <= $k
    group by run_id
    union all
    select run_id, 'least' as difficulty, max(action) as threshold
    from from_below
    where place <= $k
    group by run_id
),

ranked as (
    select
        chosen.*,
        thresholds.difficulty,
        row_number() over (
            partition by chosen.run_id, thresholds.difficulty
            order by
                case when thresholds.difficulty = 'most' then chosen.action end desc nulls last,
                chosen.action,
                chosen.sample_id
        ) as place
    from chosen
    inner join thresholds on chosen.run_id = thresholds.run_id
    where
        (thresholds.difficulty = 'most' and chosen.action >= thresholds.threshold)
        or (thresholds.difficulty = 'least' and chosen.action <= thresholds.threshold)
),

extremes as (
    select ranked.*, runs.dataset_digest as digest
    from ranked
    left join runs on ranked.run_id = runs.run_id
    where ranked.place <= $k
),

-- A data set that several experiments keep is there as often.
descriptions as (
    select
        samples.digest,
        samples.sample_id,
        max(samples.key) as key,
        max(samples.text) as text,
        max(samples.context) as context,
        max(samples.target_text) as target_text
    from samples
    inner join extremes on samples.digest = extremes.digest and samples.sample_id = extremes.sample_id
    group by samples.digest, samples.sample_id
),

class_names as (
    select digest, label, max(label_name) as label_name
    from samples
    where label_name is not null
    group by digest, label
)

select
    extremes.run_id,
    $split as split,
    extremes.difficulty,
    extremes.place,
    extremes.sample_id,
    descriptions.key,
    descriptions.text,
    descriptions.context,
    coalesce(descriptions.target_text, labelled.label_name, cast(extremes.label as string)) as target,
    coalesce(outputs.predicted_text, taken_for.label_name, cast(extremes.prediction as string)) as predicted,
    extremes.action,
    extremes.entropy
from extremes
left join descriptions on extremes.digest = descriptions.digest and extremes.sample_id = descriptions.sample_id
left join outputs
    on extremes.run_id = outputs.run_id and extremes.sample_id = outputs.sample_id and outputs.split = $split
left join class_names as labelled on extremes.digest = labelled.digest and extremes.label = labelled.label
left join class_names as taken_for on extremes.digest = taken_for.digest and extremes.prediction = taken_for.label
order by extremes.run_id, extremes.difficulty desc, extremes.place
