-- An answer can be no.
ALTER TABLE drawbridge_approvals ADD COLUMN refused {int} NOT NULL DEFAULT 0;
