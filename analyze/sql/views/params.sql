-- One row a low-level parameter of a node of a request.
--
-- request_id     VARCHAR    request or trace id
-- kind           VARCHAR    spans or records: with request_id, which request
-- position       INTEGER    canonical position of the node (of a span: its start)
-- key            VARCHAR    parameter name
-- num            DOUBLE     value, where it is a number
-- text           VARCHAR    value, where it is text; booleans as true/false
-- window_start   TIMESTAMP  UTC start of the window of the request: a filter on it spares the files of all others
CREATE OR REPLACE VIEW params AS
SELECT request_id, kind::VARCHAR AS kind, position, key::VARCHAR AS key, num, text, window_start
FROM _params;
