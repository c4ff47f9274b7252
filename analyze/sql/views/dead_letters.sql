-- One row a piece of input that could not be read and was kept instead; of the whole lake, whatever the period.
--
-- commit         BIGINT     number of the import that met it
-- source         VARCHAR    file as it was named; (stitched): found when a request was put together
-- position       BIGINT     number of its payload's first line, or of its framed message, from 0; 0 for a document
-- item           BIGINT     which record, line or span inside that payload, from 0
-- reason         VARCHAR    why: empty, unknown-format, bad-json, missing-field and more (docs/internals/formats.md)
-- detail         VARCHAR    one sentence: which field, what was expected
-- raw            VARCHAR    its first 64 KB as text; if that is not UTF-8, other bytes than ASCII as \xNN
-- size           BIGINT     bytes of the refused item
-- sha256         VARCHAR    of the refused item, hex
CREATE OR REPLACE VIEW dead_letters AS
SELECT
    split_part(parse_filename(filename), '-', 2)::BIGINT AS commit,
    source,
    position,
    item,
    reason,
    detail,
    coalesce(try(decode(raw)), raw::VARCHAR) AS raw,
    size,
    sha256
FROM _dead_letters;
