-- The rules that explain failures, over all classes: when does a class fail, how often, and how much of it is here.
--
-- reads    failure_modes (run_id, split, target, grouping, depth, label, leaf, mode_rank, rule, samples, failures, er,
--          ec, iv, ber, aler, gain, fitted_er, fitted_ec, found, holds, chance_gain, beaten),
--          runs (run_id, dataset_digest), samples (digest, label, label_name)
-- takes    $split      which split; val
--          $grouping   label: samples of a class, or prediction: samples taken for it; label
--          $depth      how many steps a rule may have; 1
--          $k          how many rules, at most; 100
-- returns  run_id, split, target, grouping, depth, mode_rank, label, label_name, leaf, rule, samples, failures, er, ec,
--          iv, ber, aler, gain, fitted_er, fitted_ec, holds, chance_gain, beaten
--          one row per run and rule that was found, the most important first
--
-- A rule is found on one half of the samples, where its order comes from too; its figures are of the other half, where
-- holds says whether it has ER > BER + delta and EC > tau there as well. beaten is the share of shuffles in which chance
-- gave less. A run that was not explained has no rows: type `actionflow explain RUN --log`.

with class_names as (
    select digest, label, any_value(label_name) as label_name
    from samples
    where label_name is not null
    group by digest, label
),

rules as (
    select *
    from failure_modes
    where split = $split and grouping = $grouping and depth = $depth and found
)

select
    rules.run_id,
    rules.split,
    rules.target,
    rules.grouping,
    rules.depth,
    rules.mode_rank,
    rules.label,
    class_names.label_name,
    rules.leaf,
    rules.rule,
    rules.samples,
    rules.failures,
    rules.er,
    rules.ec,
    rules.iv,
    rules.ber,
    rules.aler,
    rules.gain,
    rules.fitted_er,
    rules.fitted_ec,
    rules.holds,
    rules.chance_gain,
    rules.beaten
from rules
left join runs on rules.run_id = runs.run_id
left join class_names on runs.dataset_digest = class_names.digest and rules.label = class_names.label
where rules.mode_rank <= $k
order by rules.run_id, rules.mode_rank
