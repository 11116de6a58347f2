# Statements with sql.case_insensitive = true, against tables in utf8mb4_general_ci. The marks are those of corpus.sql.
SELECT 'a' = 'A', 'a ' = 'a', 'ABC' LIKE 'abc', 'a' < 'B', 'B' < 'a', 'a' <> 'A', 'a' IN ('A', 'b'), 'b' BETWEEN 'A' AND 'C', 'ABC' REGEXP 'b', 'É' = 'é', 'Ж' = 'ж'
SELECT GREATEST('a', 'B'), LEAST('a', 'B'), GREATEST('a', 'A'), LEAST('b', 'A', 'a'), GREATEST('A', 'a '), GREATEST(2, 10)
SELECT id, GREATEST(hostname, 'WEB2'), LEAST('WEB2', hostname) FROM request ORDER BY id
SELECT count(*) FROM request WHERE hostname = 'web1'
SELECT count(*) FROM request WHERE hostname = 'WEB1 '
SELECT id FROM request WHERE hostname IN ('WEB1', 'x') ORDER BY id
SELECT id FROM request WHERE hostname LIKE 'wEB%' AND script_name NOT LIKE '%INDEX%' ORDER BY id
SELECT id FROM request WHERE script_name REGEXP 'INDEX' ORDER BY id
SELECT id FROM request WHERE hostname <> 'WEB1' AND server_name >= 'SHOP' ORDER BY id
~SELECT count(*), sum(id) FROM request GROUP BY hostname
~SELECT lower(hostname), count(*) FROM request GROUP BY 1
~SELECT lower(hostname), lower(script_name), count(*) FROM request GROUP BY hostname, script_name
SELECT count(*) FROM (SELECT DISTINCT hostname, server_name FROM request) d
SELECT count(DISTINCT hostname), count(DISTINCT hostname, script_name) FROM request
SELECT lower(hostname) h, count(*) FROM request GROUP BY hostname ORDER BY hostname
SELECT id FROM request ORDER BY hostname, id
SELECT id FROM request ORDER BY hostname DESC, script_name, id LIMIT 5
!SELECT lower(min(hostname)), lower(max(hostname)) FROM request
SELECT r.id, o.id FROM request r JOIN request o ON r.hostname = o.hostname WHERE r.id = 1 ORDER BY o.id
SELECT id FROM request WHERE hostname = (SELECT 'WEB1') ORDER BY id
SELECT id, CASE hostname WHEN 'web1' THEN 'one' ELSE 'other' END, IF(hostname = 'WEB1', 1, 0), NULLIF(hostname, 'WEB1') IS NULL FROM request ORDER BY id
SELECT id, ROW_NUMBER() OVER (PARTITION BY hostname ORDER BY id) FROM request ORDER BY id
SELECT count(*) FROM (SELECT 'a' k UNION SELECT 'A') u
~SELECT DISTINCT lower(hostname), status FROM request
~SELECT lower(hostname), count(*) FROM request GROUP BY hostname WITH ROLLUP
!SELECT LOCATE('B', 'abc'), INSTR('abc', 'B'), STRCMP('a', 'A'), FIELD('B', 'a', 'b'), FIND_IN_SET('B', 'a,b'), REPLACE('aBc', 'b', 'x')
SELECT count(*) FROM request WHERE hostname IN (SELECT 'WEB1')
SELECT count(*) FROM request WHERE hostname NOT IN (SELECT 'WEB1 ')
SELECT count(*) FROM request a WHERE hostname NOT IN (SELECT b.hostname FROM request b WHERE b.hostname = a.server_name)
SELECT count(*) FROM request a WHERE hostname IN (SELECT UPPER(b.hostname) FROM request b WHERE b.hostname = UPPER(a.hostname))
SELECT count(*) FROM (SELECT '/INDEX.PHP' AS index_value UNION SELECT 'x') a JOIN report_by_script_name b ON a.index_value = b.index_value
SELECT count(*) FROM report_by_script_name a WHERE req_count = (SELECT MIN(b.req_count) FROM report_by_script_name b WHERE UPPER(b.index_value) = a.index_value)
SELECT count(*) FROM request WHERE BINARY hostname = 'WEB1'
~SELECT COUNT(*) FROM (SELECT 'WEB1' AS hostname) a JOIN request b USING (hostname)
SELECT GROUP_CONCAT(hostname, id ORDER BY hostname, id) FROM request
SELECT server_name, GROUP_CONCAT(script_name, id ORDER BY script_name DESC, id SEPARATOR '|') FROM request GROUP BY server_name ORDER BY 1
SELECT GROUP_CONCAT(id, hostname ORDER BY 2, 1 DESC) FROM request
SELECT GROUP_CONCAT(hostname, id ORDER BY BINARY hostname, id), COUNT(DISTINCT BINARY hostname) FROM request
SELECT id, RANK() OVER (ORDER BY BINARY hostname) FROM request ORDER BY BINARY hostname, id
~SELECT BINARY hostname, COUNT(*) FROM request GROUP BY BINARY hostname
