-- A curriculum: which samples to train on and in which order, by a score of an earlier run.
--
-- reads    scores (run_id, split, sample_id, label, and the score)
-- takes    $run_id         the id of the run whose scores decide
--          $split          which split; train
--          $score          which score; action
--                          of action, action_mean, action_variance, last_loss, entropy, confidence, variability,
--                          correctness, aum, forgetting, el2n, vog, vog_early, vog_late, grand
--          $order          easy-first, hard-first or random; easy-first
--          $fraction       the share of the samples to keep, from the start of the order; 1.0
--          $drop_hardest   the share of the samples to leave out first, the hardest; 0.0
--          $balanced       1 to do all this within each class and deal the classes out evenly, 0 not; 0
--          $stages         how many stages of equal size; 1
--          $seed           which random order; 0
-- returns  position, sample_id, score, stage
--          one row per sample that is kept; positions and stages count from 0
--
-- The rows come in any order: sort them by position where it matters, which costs as much as all the rest.
--
-- Hard is a high score, for confidence, correctness and aum a low one; a score that is not a number, or is NULL (as the
-- forgetting of a sample never learnt), is the hardest. Ties go by sample_id; hard-first is easy-first read backwards.
-- Of n samples (of a class, if balanced) floor(drop_hardest * n + 0.5) are dropped, and of the m that are left
-- floor(fraction * m + 0.5) are kept. Of c that are kept, the one at position p is in stage floor(p * stages / c).
-- Balanced, the i-th of the c kept of a class stands at (i - 0.5) / c; the classes are merged by that, then by label.
-- Random order is by f(f(48271 * sample_id + 69621 * seed + 11) * 40692 + seed), f(x) = x to the 5th, all modulo
-- 2147483647: the same on every engine, and no two samples below that number tie.

with scored as (
    select
        sample_id,
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
        end as double) as score,
        case when cast($balanced as boolean) then coalesce(label, -1) else 0 end as class,
        case
            when $order = 'random' then
                (48271 * (sample_id % 2147483647) + 69621 * (cast($seed as bigint) % 2147483647) + 11) % 2147483647
        end as mixed
    from scores
    where run_id = $run_id and split = $split
),

-- Each step stays below 2147483647 squared, which a 64-bit integer holds.
stirred as (
    select
        sample_id,
        score,
        class,
        case
            when score is null or isnan(score) then cast('infinity' as double)
            when $score in ('confidence', 'correctness', 'aum') then -score
            else score
        end as hardness,
        (
            ((mixed * mixed % 2147483647) * (mixed * mixed % 2147483647) % 2147483647) * mixed % 2147483647 * 40692
            + cast($seed as bigint) % 2147483647
        ) % 2147483647 as mixed
    from scored
),

ranked as (
    select
        sample_id,
        score,
        class,
        ((mixed * mixed % 2147483647) * (mixed * mixed % 2147483647) % 2147483647) * mixed % 2147483647 as shuffled,
        case
            when cast($balanced as boolean) then row_number() over (partition by class order by hardness, sample_id)
            else row_number() over (order by hardness, sample_id)
        end as easiness
    from stirred
),

-- Counted in scores itself: a CTE that is read twice is first written out, which costs more than reading labels twice.
class_sizes as (
    select case when cast($balanced as boolean) then coalesce(label, -1) else 0 end as class, count(*) as samples
    from scores
    where run_id = $run_id and split = $split
    group by case when cast($balanced as boolean) then coalesce(label, -1) else 0 end
),

left_over as (
    select
        ranked.sample_id,
        ranked.score,
        ranked.class,
        ranked.shuffled,
        ranked.easiness,
        class_sizes.samples - cast(floor($drop_hardest * samples + 0.5) as bigint) as samples
    from ranked
    inner join class_sizes on ranked.class = class_sizes.class
    where $drop_hardest = 0 or easiness <= samples - cast(floor($drop_hardest * samples + 0.5) as bigint)
),

ordered as (
    select
        sample_id,
        score,
        class,
        case $order
            when 'easy-first' then easiness
            when 'hard-first' then samples - easiness + 1
            when 'random' then row_number() over (partition by class order by shuffled, sample_id)
            else assert_true(false, concat('the order is easy-first, hard-first or random, not ', $order))
        end as turn,
        cast(floor($fraction * samples + 0.5) as bigint) as kept
    from left_over
),

positioned as (
    select
        sample_id,
        score,
        case
            when cast($balanced as boolean) then row_number() over (order by (turn - 0.5) / kept, class, sample_id)
            else turn
        end - 1 as position,
        case when cast($balanced as boolean) then count(*) over () else kept end as kept
    from ordered
    where turn <= kept
)

select position, sample_id, score, cast(floor(position * $stages / kept) as int) as stage
from positioned
