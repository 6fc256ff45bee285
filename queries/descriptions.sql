-- What the samples of a run are: their key, their class and their texts.
--
-- reads    runs (run_id, dataset_digest),
--          samples (digest, sample_id, key, label, label_name, text, context, target_text)
-- takes    $run_id   the id of the run
-- returns  sample_id, key, label, label_name, text, context, target_text
--          one row per sample of the run's data set, of all its parts, in no order of their own
--
-- Pictures have no texts (NULL), and texts that are to be written have no class. A data set that several experiments
-- keep is told once.

select
    samples.sample_id,
    max(samples.key) as key,
    max(samples.label) as label,
    max(samples.label_name) as label_name,
    max(samples.text) as text,
    max(samples.context) as context,
    max(samples.target_text) as target_text
from samples
inner join runs on samples.digest = runs.dataset_digest
where runs.run_id = $run_id
group by samples.sample_id
