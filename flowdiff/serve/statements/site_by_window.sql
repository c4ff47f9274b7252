-- Times of a call site by window.
SELECT * FROM call_sites WHERE site = :site ORDER BY window_start
