package state

// setSuspended adds the reason to suspended runs of versions before it was recorded. A run
// was suspended by its last attempt where both have the same error, else as no site
// took it. An adopted run has a store, and no sites file.
const setSuspended = `
UPDATE runs SET suspended = CASE
  WHEN json_valid(CAST(submission AS TEXT)) AND COALESCE(json_extract(CAST(submission AS TEXT), '$.sites_file'), '') = ''
    AND COALESCE(json_extract(CAST(submission AS TEXT), '$.store_name'), '') <> '' THEN 'adopted'
  WHEN message <> '' AND message = (
    SELECT CASE WHEN json_valid(CAST(record AS TEXT)) THEN json_extract(CAST(record AS TEXT), '$.message') END
    FROM attempts WHERE attempts.run = runs.id ORDER BY n DESC LIMIT 1)
  THEN CASE kind WHEN 'lost' THEN 'lost_too_often' ELSE 'no_progress' END
  ELSE 'no_site' END
WHERE state = 'suspended' AND suspended = '';
`
