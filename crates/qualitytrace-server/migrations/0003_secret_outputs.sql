-- Outputs that must not be shown, sealed: a JSON object, or nothing.
ALTER TABLE runs ADD COLUMN secrets TEXT NOT NULL DEFAULT '';
