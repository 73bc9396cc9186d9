-- What lists of runs show and filter by, so that they read neither events nor traces.
ALTER TABLE runs ADD COLUMN tenant TEXT NOT NULL DEFAULT ''; -- of the test; empty for none
ALTER TABLE runs ADD COLUMN outcome TEXT NOT NULL DEFAULT ''; -- passed, failed, inconclusive, broken, stopped; empty until it ends
ALTER TABLE runs ADD COLUMN duration BIGINT NOT NULL DEFAULT -1; -- nanoseconds from the request to the end; -1 until it ends
ALTER TABLE runs ADD COLUMN spans BIGINT NOT NULL DEFAULT -1; -- that the verdict is based on; -1 for unknown
ALTER TABLE runs ADD COLUMN source TEXT NOT NULL DEFAULT ''; -- of the metadata; empty for none
ALTER TABLE runs ADD COLUMN branch TEXT NOT NULL DEFAULT ''; -- of the metadata; empty for none

UPDATE runs SET tenant = COALESCE(
    (SELECT r.tenant FROM resources r WHERE r.kind = runs.kind AND r.id = runs.test_id), '');

-- Of earlier runs the counts and the last events tell the outcome. Their spans, source and branch stay unknown.
UPDATE runs SET outcome = CASE
        WHEN state = 'STOPPED' THEN 'stopped'
        WHEN state <> 'FINISHED' THEN 'broken'
        WHEN failed = 0 THEN 'passed'
        WHEN EXISTS (
            SELECT 1 FROM run_events e WHERE e.test_id = runs.test_id AND e.number = runs.number
                AND e.body LIKE '{"what":"judged","verdict":{"outcome":"inconclusive"%'
        ) AND NOT EXISTS (
            SELECT 1 FROM run_events e WHERE e.test_id = runs.test_id AND e.number = runs.number
                AND e.body LIKE '{"what":"late",%'
        ) THEN 'inconclusive'
        ELSE 'failed'
    END
    WHERE state NOT IN ('CREATED', 'EXECUTING', 'AWAITING_TRACE', 'ANALYZING_TRACE', 'AWAITING_TEST_RESULTS');
UPDATE runs SET duration = COALESCE((
        SELECT MIN(e.at) FROM run_events e WHERE e.test_id = runs.test_id AND e.number = runs.number
            AND (e.body LIKE '{"what":"judged"%' OR e.body LIKE '{"what":"stopped"%'
                OR e.body LIKE '{"what":"interrupted"%' OR e.body LIKE '{"what":"broken"%'
                OR e.body LIKE '{"what":"noTrace"%' OR e.body LIKE '{"what":"triggerFailed"%'
                OR e.body LIKE '{"what":"notResolved"%')
    ) - created, -1)
    WHERE outcome <> '';

CREATE INDEX runs_newest ON runs (tenant, created, test_id, number);
-- Most runs pass, and are found by the other index.
CREATE INDEX runs_not_passed ON runs (tenant, outcome, created, test_id, number)
    WHERE outcome <> '' AND outcome <> 'passed';
