-- Response times of a root type by window.
SELECT * FROM responses WHERE root = :root ORDER BY window_start
