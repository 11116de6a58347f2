# Statements that MariaDB answers and pinbad refuses, one a line, each after what the error has to name.
read-only: INSERT INTO request SELECT * FROM request WHERE 1 = 0
read-only: UPDATE request SET status = 1 WHERE 1 = 0
read-only: DELETE FROM request WHERE 1 = 0
read-only: ALTER TABLE report_by_hostname COMMENT = 'x'
variables inside of a SELECT: SELECT @x := 1
INTO: SELECT 1 INTO @x
DISTINCT: SELECT DISTINCT hostname FROM request ORDER BY id
md5: SELECT MD5('a')
sha2: SELECT SHA2('a', 256)
json_extract: SELECT JSON_EXTRACT('{"a": 1}', '$.a')
INTERVAL: SELECT FROM_UNIXTIME(0) + INTERVAL '1:1' MINUTE_SECOND
global variables: SET GLOBAL max_connections = 100
ANALYZE: ANALYZE TABLE request
CHECK: CHECK TABLE request
HANDLER: HANDLER request OPEN
soundex: SELECT SOUNDEX('a')
EXCEPT ALL: SELECT 1 EXCEPT ALL SELECT 2
INTERSECT ALL: SELECT id FROM request INTERSECT ALL SELECT id FROM request
ANY, SOME and ALL: SELECT id FROM request WHERE id > ANY (SELECT 1)
rows IN: SELECT id FROM request WHERE (id, status) IN (SELECT id, status FROM request)
IN and EXISTS: SELECT SUM(EXISTS (SELECT 1)) FROM request
IN and EXISTS: SELECT id FROM request ORDER BY id IN (SELECT 3)
LIMIT with an offset: SELECT COUNT(*) FROM request r WHERE EXISTS (SELECT 1 FROM timer t WHERE t.request_id = r.id LIMIT 1, 5)
in ON: SELECT COUNT(*) FROM request r LEFT JOIN timer t ON EXISTS (SELECT 1 FROM timertag x WHERE x.timer_id = t.id AND x.value = r.hostname)
ORDER BY: SELECT id FROM request r ORDER BY (SELECT COUNT(*) FROM timer t WHERE t.request_id = r.id)
alias inside an expression: SELECT hostname AS h, COUNT(*) FROM request GROUP BY LOWER(h)
GROUP_CONCATs: SELECT GROUP_CONCAT(id ORDER BY id), GROUP_CONCAT(id ORDER BY req_time) FROM request
GROUP_CONCATs: SELECT GROUP_CONCAT(DISTINCT id ORDER BY id), GROUP_CONCAT(id ORDER BY id DESC) FROM request
expected: SELECT COUNT(*) FROM (tag a, tag b RIGHT JOIN tag c ON b.id = c.id)
expected: SELECT COUNT(*) FROM tag a, (tag b, tag c)
PREPARE: PREPARE s FROM 'SELECT 1'
FOUND_ROWS: SELECT FOUND_ROWS()
out of range: SELECT GREATEST(0.000000000000000000000000000001, 12345678901)
out of range: SELECT CAST(99999999999999999999 AS DECIMAL(38)) / 0.000000000000000000000000000001
out of range: SELECT 99999999999999999999*9999999999999999999
out of range: SELECT CAST(99999999999999999999 AS DECIMAL(38,10)) * CAST(99999999999 AS DECIMAL(38,10))
