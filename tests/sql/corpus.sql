# Statements that have to answer what MariaDB answers for the same rows, one a line. Empty lines and lines that begin
# with # are not asked. "~" before a statement: the order of rows is not promised, both answers are sorted.
# "!" before it: the answers differ, and src/manual/sql.md says why; that they still do is checked, too.

# --- Pinboard: what it aggregates (its INSERT ... SELECTs without the INSERT)
~SELECT server_name, script_name, status, count(*) AS count FROM request WHERE status >= 500 GROUP BY server_name, script_name, status
~SELECT server_name, script_name, status, max(hostname) AS hostname, count(*) AS count FROM request WHERE status >= 500 GROUP BY server_name, script_name, status
~SELECT server_name, hostname, COUNT(*) AS cnt FROM request GROUP BY server_name, hostname
~SELECT server_name AS s, hostname AS h, max(req_time) AS m, count(*) AS c FROM request GROUP BY s, hostname
SELECT hostname AS h, status AS x, script_name AS s, count(*) AS c FROM request WHERE id = 3 GROUP BY hostname
SELECT "shop" AS server_name, "web1" AS hostname, (SELECT r.req_time FROM request r WHERE r.server_name = r2.server_name AND r.hostname = r2.hostname ORDER BY r.req_time DESC LIMIT 3, 1) as req_time_90, (SELECT r.mem_peak_usage FROM request r WHERE r.server_name = r2.server_name AND r.hostname = r2.hostname ORDER BY r.mem_peak_usage DESC LIMIT 1, 1) as mem_95, (SELECT r.ru_utime FROM request r WHERE r.server_name = r2.server_name AND r.hostname = r2.hostname ORDER BY r.ru_utime DESC LIMIT 0, 1) as cpu_99, max(req_time), max(doc_size), max(r2.mem_peak_usage) FROM request r2 WHERE r2.server_name = "shop" and r2.hostname = "web1"
SELECT "none" AS server_name, (SELECT r.req_time FROM request r WHERE r.server_name = r2.server_name ORDER BY r.req_time DESC LIMIT 3, 1) as p, max(req_time) FROM request r2 WHERE r2.server_name = "none"
~SELECT LEFT(hostname,2), req_time_total, CASE WHEN TRIM(CONVERT(req_time_total, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(req_time_total, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(req_count, 2), 4) ELSE NULL END AS p90, '2026-01-01 00:00:00' FROM report_by_hostname
~SELECT LEFT(hostname,64), LEFT(server_name,64), LEFT(script_name, 5), status, LEFT(max(tags),1024), max(tags_cnt), FROM_UNIXTIME(max(timestamp)) FROM request WHERE status >= 404 GROUP BY server_name, hostname, script_name, status LIMIT 25
SELECT server_name, hostname, script_name, req_time, mem_peak_usage, tags, tags_cnt, timers_cnt, FROM_UNIXTIME(timestamp) FROM (SELECT r.*, ROW_NUMBER() OVER (PARTITION BY r.server_name, r.hostname, r.script_name ORDER BY r.req_time DESC, r.timestamp DESC, r.id DESC) AS rn FROM request r WHERE r.req_time > 0.2) ranked WHERE rn = 1 ORDER BY req_time DESC, script_name, hostname LIMIT 10
SELECT t.id, r.script_name, t.hit_count, t.value, tag.name as tag_name, tt.value as tag_value FROM timer t JOIN request r ON t.request_id = r.id JOIN timertag tt ON tt.timer_id = t.id JOIN tag ON tt.tag_id = tag.id WHERE t.request_id IN (2, 5, 7) ORDER BY t.id, tag_name
SELECT server_name, hostname, script_name, max(mem_peak_usage) FROM request GROUP BY server_name, hostname, script_name ORDER BY max(mem_peak_usage) DESC, script_name, hostname LIMIT 10
SELECT script_name, max(ru_utime) FROM request GROUP BY script_name ORDER BY max(ru_utime) DESC, 1 LIMIT 10
SELECT * FROM request WHERE id = 5
SELECT t.id, t.hit_count, t.value, tag.name as tag_name, tt.value as tag_value FROM timer t JOIN timertag tt ON tt.timer_id = t.id JOIN tag ON tt.tag_id = tag.id WHERE t.request_id = '4' ORDER BY 1, 4
SELECT id, script_name, req_time FROM request WHERE server_name = 'shop' AND hostname = 'web1' AND id <> 3 AND timestamp >= 1 ORDER BY timestamp DESC, id DESC LIMIT 50
SELECT id, tags, tags_cnt, timers_cnt FROM request WHERE id IN (1, 3, '5') ORDER BY id
~SELECT * FROM report_by_hostname
~SELECT * FROM report_by_script_name

# its reports with percentiles, the guard around each of them as it is there
~SELECT server_name, req_time_median, CASE WHEN TRIM(CONVERT(p90, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p90, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p90, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p90, CASE WHEN TRIM(CONVERT(p95, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p95, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p95, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p95, CASE WHEN TRIM(CONVERT(p99, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p99, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p99, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p99, '2026-01-01 00:00:00' FROM ipm_pinba_report_by_server_90_95_99
~SELECT hostname, req_time_median, CASE WHEN TRIM(CONVERT(p90, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p90, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p90, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p90, CASE WHEN TRIM(CONVERT(p95, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p95, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p95, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p95, CASE WHEN TRIM(CONVERT(p99, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p99, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p99, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p99, '2026-01-01 00:00:00' FROM ipm_pinba_report_by_hostname_90_95_99
~SELECT server_name, LEFT(hostname,64), req_time_median, CASE WHEN TRIM(CONVERT(p90, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p90, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p90, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p90, CASE WHEN TRIM(CONVERT(p95, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p95, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p95, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p95, CASE WHEN TRIM(CONVERT(p99, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p99, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p99, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p99, '2026-01-01 00:00:00' FROM ipm_pinba_report_by_hostname_and_server_90_95_99
~SELECT LEFT(tag1_value,64), LEFT(tag2_value,64), req_count, req_per_sec, hit_count, hit_per_sec, timer_value, timer_median, ru_utime_value, ru_stime_value, CASE WHEN TRIM(CONVERT(p90, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p90, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p90, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p90, CASE WHEN TRIM(CONVERT(p95, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p95, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p95, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p95, CASE WHEN TRIM(CONVERT(p99, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p99, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p99, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p99, '2026-01-01 00:00:00' FROM ipm_pinba_tag_info_group_server_name
~SELECT LEFT(tag1_value,64), LEFT(tag2_value,64), LEFT(tag3_value,64), req_count, req_per_sec, hit_count, hit_per_sec, timer_value, timer_median, ru_utime_value, ru_stime_value, CASE WHEN TRIM(CONVERT(p90, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p90, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p90, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p90, CASE WHEN TRIM(CONVERT(p95, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p95, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p95, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p95, CASE WHEN TRIM(CONVERT(p99, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p99, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p99, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p99, '2026-01-01 00:00:00' FROM ipm_pinba_tag_info_group_server_server_name
~SELECT LEFT(tag1_value,64), LEFT(tag2_value,64), LEFT(tag3_value,64), req_count, req_per_sec, hit_count, hit_per_sec, timer_value, timer_median, ru_utime_value, ru_stime_value, CASE WHEN TRIM(CONVERT(p90, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p90, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p90, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p90, CASE WHEN TRIM(CONVERT(p95, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p95, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p95, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p95, CASE WHEN TRIM(CONVERT(p99, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p99, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p99, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p99, '2026-01-01 00:00:00' FROM ipm_pinba_tag_info_group_server_name_hostname
~SELECT LEFT(tag1_value,64), LEFT(tag2_value,64), LEFT(tag3_value,64), LEFT(tag4_value,64), req_count, req_per_sec, hit_count, hit_per_sec, timer_value, timer_median, ru_utime_value, ru_stime_value, CASE WHEN TRIM(CONVERT(p90, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p90, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p90, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p90, CASE WHEN TRIM(CONVERT(p95, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p95, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p95, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p95, CASE WHEN TRIM(CONVERT(p99, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p99, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p99, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p99, '2026-01-01 00:00:00' FROM ipm_pinba_tag_info_group_server_server_name_hostname
~SELECT LEFT(tag1_value,64), LEFT(tag2_value,64), req_count, req_per_sec, hit_count, hit_per_sec, timer_value, timer_median, ru_utime_value, ru_stime_value, CASE WHEN TRIM(CONVERT(p90, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p90, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p90, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p90, CASE WHEN TRIM(CONVERT(p95, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p95, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p95, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p95, CASE WHEN TRIM(CONVERT(p99, CHAR)) REGEXP '^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$' AND ABS(CAST(TRIM(CONVERT(p99, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(CAST(TRIM(CONVERT(p99, CHAR)) AS DOUBLE), 0), 1000000) ELSE NULL END AS p99, '2026-01-01 00:00:00' FROM ipm_pinba_tag_info_category_server_name

# --- other clients
SELECT req_count FROM report_by_script_name WHERE script_name='/index.php'
~SELECT script_name, req_time_total, req_count/3 AS x, req_time_total/req_count AS avg, req_count/req_time_total FROM report_by_script_name
SELECT 'req' as c_key ,count(1) AS c_value FROM request
SELECT 'mem' as c_key, avg(mem_peak_usage) as c_val from request
~select script_name, req_count, req_time_total/req_count as time_avg from pinba.report_by_script_name
SELECT hostname FROM report_by_hostname_and_server WHERE server_name = 'shop' ORDER BY 1
SELECT req_count, req_time_total FROM report_by_hostname_server_and_script WHERE 1 = '1' ORDER BY req_count DESC, req_time_total LIMIT 10 OFFSET 0
SELECT count(*) FROM report_by_hostname_server_and_script LIMIT 9223372036854775807
~select concat('INSERT "',script_name,'" ',count(*)) from request where id not between 3 and 5 group by script_name
select script_name, req_count, req_time_total/req_count rt from report_by_script_name where req_count>1 order by rt
SELECT script_name, count(*), avg(req_time) FROM request GROUP BY 1 ORDER BY 3 DESC LIMIT 10
SELECT `script_name` FROM `request` WHERE  (`id` = 2)
SELECT `id` FROM `request` WHERE  (`server_name` LIKE 's%')  AND  (`hostname` = 'web1') ORDER BY id
SELECT SQL_NO_CACHE `id` FROM request USE INDEX (PRIMARY) WHERE id < 3 ORDER BY id LOCK IN SHARE MODE
SELECT id FROM request WHERE 1=0
SELECT req_time_total FROM report_by_hostname WHERE hostname='web1'
SELECT req_time_total FROM report_by_server_name WHERE server_name='shop'
~SELECT tag1_value AS group_value, tag2_value AS operation_value, timer_value, timer_value/req_count AS timer_per_req, hit_count/req_count AS hits_per_req, timer_value/hit_count AS timer_per_hit FROM tag_info_group_operation
~select script, req_count, req_per_sec, req_time_total/req_count as time_avg, ru_utime_total/req_count as cpu from pinba.report_script_span
~select script, req_count, req_time_total/req_count as time_avg, p95 from pinba.report_by_script_name_95
SELECT hostname, server_name, script_name, req_count, req_time_total FROM report_by_hostname_server_and_script WHERE 1 = '1' AND server_name = 'shop' ORDER BY req_count DESC, 3, 1 LIMIT 10 OFFSET 2
SELECT server_name FROM report_by_hostname_and_server WHERE hostname = 'web2' ORDER BY 1
select count(*) from report_by_hostname_server_and_script where script_name like '%cart%' limit 9223372036854775807
SELECT table_name FROM information_schema.tables WHERE table_schema='pinba' AND table_name='request';
SELECT * FROM report_by_script_name WHERE script_name='/cart.php';
~select * from pinba.request
~select * from pinba.tag
~select * from pinba.timer
~select * from pinba.timertag
~select concat('INSERT INTO t VALUES ("',script_name,'" ',avg(req_time),');') from request where id not between 3 and 5 group by script_name
select script_name, req_count, req_time_total/req_count rt from report_by_script_name where req_count>100 order by rt
select * from info
select *, time_total/req_count as per_request from info
SELECT CHARACTER_MAXIMUM_LENGTH FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'pinba' AND TABLE_NAME = 'ipm_pinba_report_by_server_90_95_99' AND COLUMN_NAME = 'server_name'
~SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'pinba' AND table_name = 'request' ORDER BY column_name
SELECT table_name FROM information_schema.tables WHERE table_schema = 'pinba' AND table_name LIKE 'report\_by\_%' AND table_name IN ('report_by_status', 'report_by_hostname') ORDER BY table_name

# --- Grafana
SELECT timestamp DIV 60 * 60 AS "time", count(*) AS "n", sum(req_count) FROM request WHERE timestamp >= 1 AND timestamp <= 2000000000 GROUP BY 1 ORDER BY 1
SELECT UNIX_TIMESTAMP(FROM_UNIXTIME(timestamp)) DIV 60 * 60 AS "time", script_name AS metric, max(req_time) AS value FROM request WHERE FROM_UNIXTIME(timestamp) BETWEEN FROM_UNIXTIME(1) AND FROM_UNIXTIME(2000000000) GROUP BY 1,2 ORDER BY 1,2
SELECT timestamp DIV 60 * 60 AS "time", hostname AS metric, avg(req_time) AS "value" FROM request WHERE timestamp BETWEEN 1 AND 2000000000 GROUP BY 1, 2 ORDER BY 1, 2
SELECT UNIX_TIMESTAMP(FROM_UNIXTIME(timestamp)) as time_sec, req_time as value, script_name as metric FROM request WHERE FROM_UNIXTIME(timestamp) > FROM_UNIXTIME(1) ORDER BY timestamp ASC, id LIMIT 5
SELECT cast(cast(UNIX_TIMESTAMP(FROM_UNIXTIME(timestamp))/(300) as signed)*300 as signed) AS "time", count(*) FROM request GROUP BY 1 ORDER BY 1
SELECT DISTINCT server_name FROM request ORDER BY server_name
SELECT count(DISTINCT script_name, hostname), count(DISTINCT status) FROM request

# --- what a dialect is made of: aggregates
SELECT count(*), count(status), sum(status), avg(status), min(status), max(status), sum(req_time), avg(req_time), min(req_time), max(req_time), min(script_name), max(script_name) FROM request
SELECT sum(id), avg(id), sum(id)/count(*), sum(DISTINCT status), avg(DISTINCT status), count(DISTINCT hostname) FROM request
!SELECT STD(status), VARIANCE(status) FROM request
SELECT ROUND(STD(status), 4), STDDEV_POP(req_time) > 0, ROUND(STDDEV_SAMP(status), 3), ROUND(VARIANCE(status), 2), ROUND(VAR_SAMP(status), 2), BIT_AND(status), BIT_OR(status), BIT_XOR(status) FROM request
SELECT sum(status), avg(req_time), max(hostname), count(*) FROM request WHERE id < 0
SELECT GROUP_CONCAT(id ORDER BY id DESC SEPARATOR '-') FROM request WHERE id < 7
SELECT GROUP_CONCAT(DISTINCT hostname ORDER BY hostname), count(*) FROM request WHERE id < 7
SELECT GROUP_CONCAT(id, ':', status ORDER BY id) FROM request WHERE id < 7
SELECT GROUP_CONCAT(id ORDER BY id), GROUP_CONCAT(id ORDER BY id DESC) FROM request
SELECT hostname, status, count(*) FROM request WHERE hostname = 'web1' AND status = 200 GROUP BY hostname
SELECT hostname, count(*) c FROM request GROUP BY hostname HAVING c > 2 ORDER BY c DESC, hostname
SELECT hostname h, sum(status >= 500) bad, avg(status = 200) good FROM request GROUP BY h ORDER BY h
~SELECT hostname, script_name, count(*), sum(req_count) FROM request GROUP BY hostname, script_name WITH ROLLUP
SELECT id * 2 d FROM request HAVING d > 6 AND d < 12 ORDER BY d
SELECT LEFT(script_name, 4) g, max(id) FROM request GROUP BY g ORDER BY g
SELECT hostname FROM request GROUP BY hostname ORDER BY max(id) DESC
SELECT script_name, sum(req_time) OVER (PARTITION BY hostname ORDER BY id) FROM request WHERE id < 6 ORDER BY id
SELECT id, ROW_NUMBER() OVER (ORDER BY id DESC), RANK() OVER (ORDER BY status), LAG(id) OVER (ORDER BY id), SUM(id) OVER () FROM request WHERE id < 6 ORDER BY id
SELECT id, ROW_NUMBER() OVER (ORDER BY id) - 10, id - ROW_NUMBER() OVER (ORDER BY id DESC), NTILE(4) OVER (ORDER BY id) - 3, DENSE_RANK() OVER (ORDER BY status) * -1, RANK() OVER (ORDER BY status) - 9 FROM request ORDER BY id
SELECT id, rn - LAG(rn) OVER (ORDER BY id) FROM (SELECT id, ROW_NUMBER() OVER (ORDER BY hostname, id) rn FROM request) t ORDER BY id
SELECT MIN(rn) - MAX(rn) FROM (SELECT ROW_NUMBER() OVER (ORDER BY id) rn FROM request) t
SELECT id, ROUND(PERCENTILE_CONT(0.95) WITHIN GROUP (ORDER BY mem_peak_usage) OVER (PARTITION BY hostname), 6) AS p95, PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY id) OVER (PARTITION BY script_name) AS p50 FROM request ORDER BY id
SELECT id, ROUND(MEDIAN(id) OVER (PARTITION BY hostname), 1) AS m, PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY req_time DESC) OVER (PARTITION BY server_name) AS p90 FROM request ORDER BY id
(SELECT id FROM request WHERE id = 1) UNION (SELECT id FROM request WHERE id IN (1, 2)) ORDER BY id DESC
SELECT id FROM request WHERE id < 3 UNION ALL SELECT 'x' FROM request WHERE id = 1 ORDER BY id
SELECT id, (SELECT count(*) FROM timer t WHERE t.request_id = r.id) n FROM request r WHERE id < 5 ORDER BY id
SELECT id FROM request r WHERE EXISTS (SELECT 1 FROM timer t WHERE t.request_id = r.id AND t.hit_count > 1) ORDER BY id
SELECT id FROM request WHERE hostname IN (SELECT hostname FROM report_by_hostname WHERE req_count > 2) ORDER BY id LIMIT 2, 3
SELECT r.id, t.id FROM request r LEFT JOIN timer t ON t.request_id = r.id AND t.hit_count > 2 WHERE r.id < 5 ORDER BY 1, 2
WITH w AS (SELECT hostname, count(*) n FROM request GROUP BY hostname) SELECT w.hostname, n FROM w WHERE n = (SELECT max(n) FROM w) ORDER BY 1
SELECT Hostname, R.STATUS, req_time AS `Req Time` FROM request R WHERE R.ID = 1 ORDER BY HOSTNAME

# --- numbers
SELECT 1+1, 7/2, 1/3, 7 DIV 2, -7 DIV 2, 7 % 2, -7 % 2, 7 MOD 4, 5.5 % 2, 1/0, 5 DIV 0, 5 % 0
SELECT 10/4/2, (1+2)/3, 1/3.0, 2.50/0.5, 1e1/4, 2/'4', 0.1+0.2, 0.1e0+0.2e0, 1.5*1.5, 3-5, -(-3), - -2
SELECT '3abc'+1, '1.5'*2, 'x'+0, '1e2'+0, ' 12 '+0, '-5'-1, -'5', NULL+1
SELECT 1+2*3, (1+2)*3, 2*3%4, 100 DIV 60 * 60, 1 | 2 & 3, 1 << 2 + 1, 5 ^ 3, ~0, 5 & 12, 256 >> 4
SELECT ROUND(2.567, 1), ROUND(2.5), ROUND(-2.5), ROUND(1234, -2), ROUND(2.5e0), ROUND(1.005, 2), ROUND(NULL), ROUND(15.5e0, -1), ROUND('2.4')
SELECT TRUNCATE(2.567, 2), TRUNCATE(-2.567, 1), TRUNCATE(1234, -2), FLOOR(-1.5), FLOOR(1.9e0), CEIL(1.2), CEILING(-1.2), ABS(-3), ABS(-2.5), ABS('-1'), SIGN(-2), SIGN(0), SIGN(0.5)
SELECT FORMAT(1234567.891, 2), FORMAT(-1234.5, 0), FORMAT(0.5, 0), FORMAT('12', 1), GREATEST(1, 2.5, 2), LEAST(3, 1), GREATEST('b', 'a'), LEAST(1, NULL), GREATEST(1, '2')
SELECT FORMAT(1.115e0, 2), FORMAT(2.675e0, 2), FORMAT(0.145e0, 2), FORMAT(0.5e0, 0), FORMAT(2.5e0, 0), FORMAT(-0.4e0, 0), FORMAT(-0.004e0, 2), FORMAT('1.115', 2), FORMAT(0.1e0, 20), FORMAT(1e-20, 30), FORMAT(1e22/3, 3), FORMAT(1e300, 0)
SELECT id, FORMAT(req_time, 2), FORMAT(req_time * 1000, 1), FORMAT(SUM(req_time) OVER (), 3) FROM request ORDER BY id
SELECT POW(2, 10), SQRT(16), SQRT(-1), EXP(0), LN(1), LN(0), LOG(2, 8), LOG(0, 8), LOG(1, 8), LOG2(8), LOG10(1000), ROUND(PI(), 6), SIN(0), COS(0), DEGREES(PI()), MOD(10, 3)
SELECT CONV('ff', 16, 10), CONV(10, 10, 2), HEX(255), HEX('abc'), UNHEX('414243'), BIN(5), OCT(8), BIT_COUNT(7), CRC32('abc')
SELECT 2.5e0 | 0, 0.5e0 | 0, 1.5e0 | 0, -2.5e0 | 0, 0.5e0 & 7, 2.5e0 ^ 0, ~2.5e0, 2.5e0 << 1, 6.5e0 >> 1, 1 << 2.5e0, 1 >> 0.5e0, BIT_COUNT(2.5e0), HEX(2.5e0), HEX(-2.5e0), HEX(1e20), HEX(1.5e19), HEX(18446744073709551615.0), BIT_OR(2.5e0), CAST(2.5e0 AS SIGNED), CAST(2.5e0 AS UNSIGNED)
SELECT BIN(2.9), BIN(2.5e0), OCT(2.9), BIN('12abc'), BIN(''), BIN(' '), BIN('+5'), BIN(-2.7), BIN(7/2), OCT(-9), BIN(18446744073709551615), OCT('x'), CONV('', 10, 2), CONV('+5', 10, 2), CONV('-', 10, 2)
SELECT HEX(DATE '2026-11-28'), HEX(TIMESTAMP '2026-11-28 10:00:00'), HEX(TIME '10:00:00'), HEX(FROM_UNIXTIME(timestamp)) = HEX(CONCAT(FROM_UNIXTIME(timestamp))), BIN(DATE '2026-11-28'), OCT(TIMESTAMP '2026-11-28 10:00:00'), BIT_COUNT(DATE '2026-11-28') FROM request WHERE id = 1
SELECT FLOOR(TIMESTAMP '2026-11-28 10:00:00'), CEIL(TIMESTAMP '2026-11-28 10:00:00'), ROUND(TIMESTAMP '2026-11-28 10:00:00'), TRUNCATE(TIMESTAMP '2026-11-28 10:00:00', 0), ROUND(TIMESTAMP '2026-11-28 10:00:00', -2), FLOOR(DATE '2026-11-28'), ROUND(DATE '2026-11-28', -2), FLOOR(FROM_UNIXTIME(1.5)), CEIL(FROM_UNIXTIME(1.5)), ROUND(FROM_UNIXTIME(1.5)), TRUNCATE(FROM_UNIXTIME(1.5), 0), FLOOR(TIMESTAMP '2026-11-28 10:00:00') / 2, FLOOR(NOW()) = NOW(), FLOOR(FROM_UNIXTIME(timestamp)) = FROM_UNIXTIME(timestamp) FROM request WHERE id = 1
SELECT id, req_time * 1000 | 0, ~(req_time * 100), HEX(req_time * 1000), BIT_COUNT(req_time * 1000) FROM request ORDER BY id
SELECT CAST('12abc' AS SIGNED), CAST(-1 AS UNSIGNED), CAST(1.5 AS SIGNED), CAST(2.5 AS SIGNED), CAST('1.555' AS DECIMAL(10,2)), CAST(7 AS DECIMAL(5,2)), CAST(1.5 AS CHAR), CAST('abcd' AS CHAR(2)), CAST('1e2x' AS DOUBLE), CONVERT('7', UNSIGNED INTEGER), CONVERT('x' USING utf8mb4)
SELECT CAST(0.285e0 AS DECIMAL(10,2)), CAST(1.005e0 AS DECIMAL(10,2)), CAST(0.145e0 AS DECIMAL(10,2)), CAST(-0.285e0 AS DECIMAL(10,2)), CAST('0.285e0' AS DECIMAL(10,2)), CAST(123456789012345678e0 AS DECIMAL(38,2)), CAST(0.1e0+0.2e0 AS DECIMAL(38,30)), CAST(1e300 AS DECIMAL(10,2)), CAST(1e-300 AS DECIMAL(10,2))
SELECT id, CAST(req_time AS DECIMAL(10,3)), CAST(req_time AS DECIMAL(10,2)), CAST(ru_utime AS DECIMAL(10,6)) FROM request ORDER BY id
SELECT 1.10, 1.0, 100, -0.5, 1e3, 1.5e-7, 123456789012345678, 9223372036854775807, 18446744073709551615, 0x41, x'42', TRUE, FALSE
SELECT req_time, req_time+0, req_time*2, req_time*1000, ROUND(req_time, 2), req_time = 0.125, req_time > '0.1', req_time/3, CONCAT(req_time), FLOOR(req_time*10) FROM request WHERE id < 6 ORDER BY id
SELECT id/3, id DIV 3, id%3, id*1.5, id+0.5, -id, id = '3', status/100 FROM request WHERE id < 5 ORDER BY id
SELECT (1/3)*3
!SELECT SUM(id/7), MAX(id/7)*7 FROM request
!SELECT AVG(id/7) FROM request
!SELECT x*100 FROM (SELECT id/7 AS x FROM request WHERE id = 1) t
!SELECT (1/30000) BETWEEN 0.00001 AND 1

# --- conditions
SELECT 1 = '1', '1.0' = 1, 'abc' = 0, '10' > 9, 'b' > 'a', NULL = 1, NULL <=> NULL, 1 <=> NULL, 1 <> 2, 1 != 1
SELECT 5 BETWEEN 1 AND 9, 5 NOT BETWEEN '1' AND '3', 2 IN (1, '2'), '2' IN (1, 2), 3 NOT IN (1, 2), NULL IN (1), 1 IN (NULL, 1), 2 IN (NULL, 1)
SELECT '9' BETWEEN 1 AND '10', '9' BETWEEN '1' AND 10, 9 BETWEEN '1' AND '10', '9' BETWEEN '1' AND '10', 'a' BETWEEN 0 AND 'b', '10' BETWEEN 9.5 AND '9.75', '9' NOT BETWEEN 1 AND '10', 'b' BETWEEN NULL AND 'a', '9' BETWEEN NULL AND '10', NULL BETWEEN 1 AND 'a'
SELECT '2026-9-5' BETWEEN DATE'2026-01-01' AND '2026-10-01', '2026-9-5' BETWEEN '2026-1-1' AND DATE'2026-10-01', DATE'2026-09-05' BETWEEN '2026-1-1' AND '2026-10-1', TIMESTAMP'2026-09-05 10:00:00' BETWEEN '2026-09-05' AND DATE'2026-09-06', '2026-9-5' BETWEEN '2026-01-01' AND '2026-10-01'
SELECT id FROM request WHERE status BETWEEN '200' AND 404 AND hostname BETWEEN 'web1' AND CONCAT('web', 2) AND id NOT BETWEEN (SELECT 3) AND '5' ORDER BY id
SELECT ROUND(9223372036854775807), ROUND(9223372036854775804, -1), TRUNCATE(-9223372036854775807, -1), -CAST(9223372036854775808 AS UNSIGNED), ROUND(CAST(9223372036854775809 AS UNSIGNED), 0), (-9223372036854775807 - 1) % -1
!SELECT ROUND(9223372036854775807, -1)
!SELECT LOCATE('', '', 1), MAKEDATE(50, 1), LOWER('ΑΣ')
SELECT ! 1 = 2, !0 + 1, !NULL IS NULL
SELECT NOT 0, NOT 5, !1, NOT NULL, 1 AND 0, 1 AND NULL, 0 AND NULL, 1 OR NULL, 0 OR NULL, 1 XOR 1, 1 XOR 0, 'a' || 'b', 1 && 2, 2 AND 3
SELECT 1 IS TRUE, 0 IS FALSE, NULL IS UNKNOWN, NULL IS NULL, 1 IS NOT NULL, 2 IS TRUE, ISNULL(1), ISNULL(NULL)
SELECT 'abc' LIKE 'a%', 'abc' LIKE '_b_', 'a_c' LIKE 'a\_c', 'abc' LIKE 'a\_c', 'a%c' LIKE 'a|%c' ESCAPE '|', 'abc' NOT LIKE 'b%', NULL LIKE 'a', 12 LIKE '1%'
SELECT 'abc' REGEXP '^a.c$', 'abc' NOT REGEXP 'b', 'abc' RLIKE 'x', '12.5' REGEXP '^[0-9]+(\\.[0-9]+)?$', NULL REGEXP 'a'
SELECT IF(1 > 2, 'a', 'b'), IF(NULL, 1, 2), IF('0', 1, 2), IFNULL(NULL, 5), IFNULL(0, 5), NULLIF(1, 1), NULLIF(1, 2), COALESCE(NULL, NULL, 3), CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END, CASE WHEN 0 THEN 1 END, CASE WHEN NULL THEN 1 ELSE 2 END
SELECT (1, 2) = (1, 2), (1, 2) = (1, 3), (1, 2) IN ((3, 4), (1, 2)), (1, 2) <> (1, 2)
SELECT id FROM request WHERE status AND id < 4 ORDER BY id
SELECT id FROM request WHERE script_name ORDER BY id
SELECT id FROM request WHERE (hostname, status) IN (('web1', 200), ('web2', 500)) ORDER BY id
SELECT id FROM request WHERE NOT (status = 200) AND NOT id > 9 ORDER BY id
SELECT a FROM (SELECT 1 a UNION ALL SELECT NULL UNION ALL SELECT 0) t ORDER BY a
SELECT a FROM (SELECT 1 a UNION ALL SELECT NULL UNION ALL SELECT 0) t ORDER BY a DESC
!SELECT 'a' = 'A', 'a ' = 'a', 'ABC' LIKE 'abc'
SELECT COALESCE(NULL, id, 'x'), IFNULL(status, '-'), IF(id > 2, 'big', id), CASE WHEN id > 2 THEN 'big' ELSE status END, IFNULL(req_time, 0) > 0 FROM request WHERE id < 4 ORDER BY id


# --- several types
SELECT IF(COUNT(*) = 0, 0, SUM(status = 500)), ROUND(100 * IF(COUNT(*) = 0, 0, SUM(status = 500) / COUNT(*)), 1), 1000 * SUM(CASE WHEN status = 500 THEN 0 ELSE 0.25 END) FROM request
SELECT status, IF(req_count = 0, 0, req_time_total / req_count) * 1000 > 1 FROM report_by_status ORDER BY status
SELECT id, IF(id > 2, 0, req_time) * 1000, IF(id > 2, id, '2.5') - 1, IF(id > 1, 1, 2.5), IF(id > 2, FROM_UNIXTIME(0), '-'), IFNULL(status = 500, 0) FROM request WHERE id < 4 ORDER BY id
~SELECT 1 x UNION ALL SELECT 2.5
~SELECT NULL a UNION ALL SELECT 1
SELECT x * 2, x + 1, x = 2.5 FROM (SELECT 1 x UNION ALL SELECT 2.5) t ORDER BY 1
SELECT (SELECT id FROM request WHERE id = -1), IFNULL((SELECT id FROM request WHERE id = -1), 7)
SELECT COUNT(*) FROM request WHERE id = ANY (SELECT id FROM request WHERE id < 3)
SELECT COUNT(*) FROM request WHERE id <> ALL (SELECT id FROM request WHERE id < 3)
SELECT id FROM request WHERE id IN (SELECT '2')
SELECT COUNT(*) FROM request WHERE id IN (SELECT status = 500 FROM request)
SELECT COUNT(*) FROM request WHERE (status = 500) IN (SELECT tags_cnt FROM request WHERE id < 3)
SELECT COUNT(*) FROM request WHERE req_time * 0 NOT IN (SELECT status = 500 FROM request)
SELECT COUNT(*) FROM request WHERE hostname IN (SELECT status < 0 FROM request) OR id < 3
SELECT *, id AS id FROM request WHERE id < 3 ORDER BY id
SELECT 0xFF + 0, b'101' + 0, 10 | 0x01, '5' = 0x35, 5 = 0x05, 5 IN (0x05, 6), CONCAT(0x41, 'x'), CAST(0x41 AS UNSIGNED), -0x10, x'41' + 0, 0x10 / 2, IF(0x00, 1, 2), 0xFF = 255, 0x10 BETWEEN 15 AND 17
SELECT -(5 & 3), HEX(18446744073709551615), CAST('18446744073709551616' AS UNSIGNED), CAST(3 AS UNSIGNED) - 1, BIT_AND(NULL), BIT_OR(NULL), SUM(NULL), CONV('7b', 16, -10), CONV(-17, 10, -18), SUBSTRING_INDEX('aaaaa', 'aa', -1), UPPER('straße'), LOCATE('', 'abc', 4)
!SELECT MINUTE('2026-02-28')
!SELECT req_time FROM request WHERE id = 2 UNION SELECT 'x'
!SELECT TIMESTAMP('2026-01-01') = 20260101, UNIX_TIMESTAMP('2026-01-01 00:00:00.25')

# --- INTERSECT and EXCEPT of several types
SELECT '1.0' INTERSECT SELECT 1
SELECT 1 EXCEPT SELECT '01'
SELECT '1' INTERSECT SELECT 1
~SELECT id FROM request WHERE id < 5 EXCEPT SELECT '02'
~SELECT hostname FROM request EXCEPT SELECT 10
SELECT id FROM tag EXCEPT SELECT name FROM tag ORDER BY 1
~SELECT id AS x, name FROM tag EXCEPT SELECT id, 5 FROM tag
SELECT status = 200 FROM request INTERSECT SELECT 1
SELECT status FROM request INTERSECT SELECT 200.0
SELECT x + 1 FROM (SELECT '1' AS x INTERSECT SELECT 1) t

# --- texts
SELECT CONCAT('a', 1, 2.50), CONCAT('a', NULL), CONCAT_WS('-', 'a', NULL, 'b', 3), CONCAT_WS(NULL, 'a'), 'a' 'b', "x""y", 'it''s', 'a\'b', 'tab\tx'
SELECT LEFT('abc', 2), LEFT('abc', 0), RIGHT('abc', 2), RIGHT('abc', 9), SUBSTRING('abcdef', 2, 3), SUBSTRING('abc', -2), SUBSTRING('abc', 0), SUBSTR('abc' FROM 2 FOR 1), MID('abc', 2, 1), SUBSTRING('abc', 2, -1)
SELECT SUBSTRING_INDEX('a.b.c', '.', 2), SUBSTRING_INDEX('a.b.c', '.', -2), SUBSTRING_INDEX('a.b.c', '.', 0), SUBSTRING_INDEX('abc', '.', 1)
SELECT LOCATE('b', 'abc'), LOCATE('x', 'abc'), LOCATE('b', 'abcb', 3), LOCATE('', 'abc'), INSTR('abc', 'c'), POSITION('b' IN 'abc')
SELECT UPPER('aé'), UCASE('a'), LOWER('AÉ'), LCASE('A'), LENGTH('é'), CHAR_LENGTH('é'), CHARACTER_LENGTH('ab'), OCTET_LENGTH('é'), BIT_LENGTH('a')
SELECT TRIM('  a '), LTRIM(' a'), RTRIM('a '), TRIM(LEADING 'x' FROM 'xxa'), TRIM(TRAILING 'x' FROM 'axx'), TRIM(BOTH 'x' FROM 'xax'), TRIM('x' FROM 'xax')
SELECT REPLACE('aXbX', 'X', '-'), REPLACE('abc', '', 'x'), REVERSE('abc'), REPEAT('ab', 2), REPEAT('a', -1), SPACE(2), LPAD('a', 3, 'xy'), RPAD('a', 4, 'xy'), LPAD('abc', 2, 'x'), INSERT('abcdef', 2, 3, 'X')
SELECT ASCII('a'), ASCII(''), ORD('é'), CHAR(65, 66), FIELD('b', 'a', 'b'), FIELD('x', 'a'), FIELD(2, 1, 2), ELT(2, 'a', 'b'), ELT(3, 'a'), FIND_IN_SET('b', 'a,b'), FIND_IN_SET('x', 'a,b'), STRCMP('a', 'b'), STRCMP('a', 'a'), QUOTE('it''s')
SELECT REGEXP_REPLACE('abcabc', 'b(c)', '[\\1]'), REGEXP_INSTR('abc', 'c'), REGEXP_SUBSTR('abc123', '[0-9]+')
SELECT HEX(CONCAT(script_name)), LENGTH(script_name), UPPER(hostname) FROM request WHERE id = 1

SELECT 'a|' LIKE 'a|' ESCAPE '|', 'a\\' LIKE 'a|' ESCAPE '|', 'a' LIKE 'a|' ESCAPE '|', 'a|' LIKE 'a||' ESCAPE '|', 'a%' LIKE 'a|%' ESCAPE '|', '|' LIKE '|' ESCAPE '|'

# --- precedence, zeros and types of choices
SELECT 5 BETWEEN 1 AND 2 BETWEEN 0 AND 1, 5 NOT BETWEEN 1 AND 2 BETWEEN 0 AND 1, 1 BETWEEN 0 AND 2 LIKE 2, 3 BETWEEN 1 AND 2 IN (2, 3), 1 BETWEEN 0 AND 1 = 1
SELECT 2 > 1 IN (2), 2 > 1 NOT IN (2, 3), 2 > 1 LIKE '2', 2 > 1 NOT LIKE '1', 2 > 1 BETWEEN 2 AND 3, 2 > 1 REGEXP '2', 2 LIKE '2' = 1, 2 IN (2) = 1, 2 BETWEEN 1 AND 2 = 0, 3 <> 2 IS NULL, NOT 1 IN (2), 1 = 0 = 0
SELECT COUNT(*), SUM(script_name LIKE '/a%' = 0), SUM(1 = status IN (200, 404)) FROM request WHERE hostname LIKE 'web%' = 1
SELECT -3 ^ 2, ~0 / 2, ~1 & 7, -2 * -3, - -1, 7 - -3, BINARY 'a' = 'a', -(2 + 3)
SELECT COUNT(*), SUM(doc_size * -0e0 IN (0, 1)), SUM(doc_size * -0e0 = 0) FROM request WHERE doc_size * -0e0 IN (0, 7)
SELECT COUNT(*) FROM request a JOIN (SELECT 0e0 AS z) b ON a.doc_size * -0e0 = b.z
~SELECT 'a' AS x FROM request UNION SELECT IF(1, hostname, 'web') FROM request
~SELECT status = 200 AS x FROM request UNION SELECT 1.5
SELECT COALESCE(status = 200, 1.5), GREATEST(status = 200, 0.5), IF(id = 1, status = 200, 2.5) FROM request WHERE id = 1
SELECT CAST(1e19 AS UNSIGNED), 1e19 | 0, CAST(-1.5e0 AS UNSIGNED), ~0 & 10000000000000000000
SELECT COUNT(*), SUM(hostname IN (1, 'web1')), SUM(hostname NOT IN ('0', 1.5, 'web1')), SUM(id IN (1, '2', 3.0, 4e0, NULL)), SUM(id NOT IN (1, '2', 3.5)) FROM request
SELECT ' 1' IN (0.1e0, '1e0'), DATE '2026-11-26' IN ('2026-11-26', 5), 1 IN (NULL, '1'), 1 NOT IN (NULL, '2'), 'a' IN ('b', NULL)
~SELECT status s, COUNT(*) FROM request GROUP BY s WITH ROLLUP
~SELECT LEFT(script_name, 3) l, COUNT(*) FROM request GROUP BY l WITH ROLLUP
~SELECT status AS x FROM request UNION SELECT timers_cnt * 1.0 FROM request
SELECT SUM(x) FROM (SELECT status AS x FROM request UNION ALL SELECT timers_cnt * 1.0 FROM request) t
~SELECT x FROM (SELECT 1 AS x UNION ALL SELECT timers_cnt * 1.0 FROM request) t GROUP BY x
SHOW TABLES LIKE 'time%'
SHOW DATABASES LIKE 'pinb%'
!SELECT ROUND(1.5e0, 2), TRUNCATE(1.999e0, 10)

# --- times (the session's zone is +00:00)
SELECT FROM_UNIXTIME(0), FROM_UNIXTIME(1700000000), FROM_UNIXTIME(1700000000, '%Y/%m/%d'), FROM_UNIXTIME(NULL), UNIX_TIMESTAMP('2023-11-14 22:13:20'), UNIX_TIMESTAMP('2023-11-14'), UNIX_TIMESTAMP(FROM_UNIXTIME(1700000000))
SELECT DATE_FORMAT('2026-11-21 09:05:07', '%Y %y %m %c %d %e %D %H %k %h %I %l %i %s %S %f %p %T %r %a %W %b %M %w %j %U %u %V %v %X %x %%')
SELECT DATE_FORMAT('2008-01-01', '%U %u %V %v %X %x'), WEEK('2008-02-20'), WEEK('2008-02-20', 1), WEEK('2008-12-31', 3), WEEKOFYEAR('2008-02-20'), YEARWEEK('2000-01-01'), YEARWEEK('2008-02-20', 1)
SELECT YEAR('2026-11-21'), QUARTER('2026-11-21'), MONTH('2026-11-21'), DAY('2026-11-21'), DAYOFMONTH('2026-11-21'), DAYOFYEAR('2026-11-21'), DAYOFWEEK('2026-11-21'), WEEKDAY('2026-11-21'), DAYNAME('2026-11-21'), MONTHNAME('2026-11-21'), LAST_DAY('2026-02-03')
SELECT HOUR('2026-11-21 09:05:07'), MINUTE('2026-11-21 09:05:07'), SECOND('2026-11-21 09:05:07'), HOUR('09:05:07'), MICROSECOND('2026-11-21 09:05:07.25'), TIME_TO_SEC('01:01:01'), SEC_TO_TIME(3661), EXTRACT(YEAR FROM '2026-11-21'), EXTRACT(DAY_HOUR FROM '2026-11-21 09:05:07'), EXTRACT(YEAR_MONTH FROM '2026-11-21')
SELECT DATE('2026-11-21 09:05:07'), DATEDIFF('2026-11-21', '2026-11-01 23:59:59'), TO_DAYS('2026-11-21'), FROM_DAYS(740000), MAKEDATE(2026, 60), STR_TO_DATE('21.11.2026', '%d.%m.%Y'), CAST('2026-11-21 10:00:00' AS DATE), CAST('2026-11-21' AS DATETIME)
SELECT FROM_UNIXTIME(0) + INTERVAL 1 DAY, DATE_ADD(FROM_UNIXTIME(0), INTERVAL 1 MONTH), DATE_SUB(FROM_UNIXTIME(86400), INTERVAL 2 HOUR), ADDDATE(FROM_UNIXTIME(0), 3), DATE_ADD(FROM_UNIXTIME(2678400 - 86400), INTERVAL 1 MONTH), FROM_UNIXTIME(0) - INTERVAL 1 WEEK
SELECT TIMESTAMPDIFF(SECOND, '2026-01-01', '2026-01-02'), TIMESTAMPDIFF(MINUTE, '2026-01-01 00:00:00', '2026-01-01 01:30:59'), TIMESTAMPDIFF(MONTH, '2026-01-31', '2026-02-28'), TIMESTAMPDIFF(YEAR, '2020-02-29', '2026-02-28'), TIMESTAMPDIFF(DAY, '2026-01-02', '2026-01-01')
SELECT CONVERT_TZ('2026-01-01 12:00:00', '+00:00', '+02:30'), TIMESTAMP('2026-01-01'), TIMESTAMPADD(HOUR, 5, FROM_UNIXTIME(0)), FROM_UNIXTIME(timestamp) > '2001-01-01' FROM request WHERE id = 1
SELECT TIMEDIFF('10:00:00', '09:30:00'), TIMEDIFF('09:30:00', '10:00:00'), TIMEDIFF('2026-11-28 10:00:00', '2026-11-27 09:30:00'), TIMEDIFF('2026-11-28 10:00:00', TIMESTAMP '2026-11-28 11:00:00'), TIMEDIFF(TIMESTAMP '2026-11-28 10:00:00', '09:30:00'), TIMEDIFF(TIMESTAMP '2026-11-28 10:00:00', TIMESTAMP '2020-11-28 10:00:00'), TIMEDIFF(DATE '2026-11-28', DATE '2026-11-27'), TIMEDIFF(DATE '2026-11-28', TIMESTAMP '2026-11-27 10:00:00'), TIMEDIFF(100000, 93000), TIMEDIFF(20261128100000, 20261128090000), TIMEDIFF('10:00', '9:00'), TIMEDIFF('1 10:00:00', '9:00'), TIMEDIFF('-10:00:00', '9:00'), TIMEDIFF(NULL, '1:00'), TIMEDIFF('x', '1:00:00'), TIMEDIFF(NOW(), UTC_TIMESTAMP()), TIMEDIFF(CURTIME(), '00:00:00') = CURTIME()
SELECT id, TIMEDIFF(FROM_UNIXTIME(timestamp), FROM_UNIXTIME(timestamp - id)) FROM request ORDER BY id
SELECT TIMESTAMP('2026-11-28', '10:00:00'), TIMESTAMP('2026-11-28 01:00:00', '10:00:00'), TIMESTAMP('2026-11-28', '-10:00:00'), TIMESTAMP('2026-11-28', 'x'), TIMESTAMP(DATE '2026-11-28', 100000), TIMESTAMP('2026-11-28', '1 10:00:00'), TIMESTAMP('2026-11-28', NULL), TIMESTAMP('2026-11-28', '25:00:00'), TIMESTAMP('2026-11-28', TIMESTAMP '2026-11-28 10:00:00'), TIMESTAMP(NULL, '1:00'), TIMESTAMP(FROM_UNIXTIME(0), '00:00:01')
SELECT r.id, t.id, t.value FROM {OJ request r LEFT OUTER JOIN timer t ON r.id = t.request_id AND t.hit_count > 3} WHERE r.id < 9 ORDER BY r.id, t.id
SELECT r.id, s.id FROM (request r, request s) WHERE r.id = s.id + 1 ORDER BY r.id
SELECT COUNT(*), (SELECT COUNT(*) FROM ((tag))) FROM (request) LEFT JOIN (tag g) ON g.id = request.id
SELECT r.id, t.id, g.name FROM request r LEFT JOIN (timer t, timertag tt JOIN tag g ON g.id = tt.tag_id) ON t.request_id = r.id AND tt.timer_id = t.id AND g.name = 'group' WHERE r.id < 7 ORDER BY r.id, t.id
SELECT TIME_FORMAT('13:04:05', '%H:%i'), TIME '10:11:12', HOUR('25:00:00'), HOUR(SEC_TO_TIME(360000)), EXTRACT(HOUR FROM '05:06:07'), MICROSECOND('10:11:12.000123'), SEC_TO_TIME(1.5), SEC_TO_TIME(-1), STR_TO_DATE('10:11:12', '%H:%i:%s'), UNIX_TIMESTAMP('x')
SELECT TIME_FORMAT('25:04:05', '%H %k %h %l %i %s %p %T %r %f'), TIME_FORMAT('01:02:03', '%Y'), TIME('1 10:00:00'), CAST(101112 AS TIME), SEC_TO_TIME(1e9), STR_TO_DATE('202647 Sunday', '%X%V %W'), STR_TO_DATE('202647 Monday', '%x%v %W'), DATE_FORMAT('2026-01-02', '%d%')
SELECT STR_TO_DATE(CONCAT(YEARWEEK('2026-11-25'), ' Sunday'), '%X%V %W') AS week
SELECT STR_TO_DATE('2026-11-28','%Y-%m-%d %H:%i'), STR_TO_DATE('2026-11-28 ','%Y-%m-%d %H:%i'), STR_TO_DATE('2026-11-28 1','%Y-%m-%d %H:%i'), STR_TO_DATE('2026-11-28T','%Y-%m-%d %H:%i'), STR_TO_DATE('2026-11-28 10:xx','%Y-%m-%d %H:%i'), STR_TO_DATE('2026-11-28 10:05','%Y-%m-%d %T'), STR_TO_DATE('10:11','%H:%i:%s')
SELECT FROM_UNIXTIME(0) + INTERVAL '1.5' DAY, FROM_UNIXTIME(0) + INTERVAL 1.5 DAY, FROM_UNIXTIME(0) + INTERVAL '1.5' MONTH, FROM_UNIXTIME(0) + INTERVAL '1.9' HOUR, FROM_UNIXTIME(86400 * 9) - INTERVAL '1.5' DAY, FROM_UNIXTIME(86400 * 9) - INTERVAL '-1.5' DAY, FROM_UNIXTIME(86400 * 9) - INTERVAL 1.5 DAY, ADDDATE(FROM_UNIXTIME(0), '1.5'), FROM_UNIXTIME(0) + INTERVAL 2.5e0 DAY, FROM_UNIXTIME(86400) - INTERVAL '2x' HOUR
SELECT GREATEST(DATE '2026-11-28', '2027-01-01'), LEAST('2027-01-01 10:00:00', DATE '2026-11-28'), GREATEST(DATE '2026-11-28', '2027-01-01 10:00:00'), GREATEST(DATE '2026-11-28', TIMESTAMP '2027-01-01 10:00:00'), GREATEST(TIMESTAMP '2026-01-01 00:00:00', '2027-01-01')
!SELECT '2026-01-31' + INTERVAL 1 MONTH, FROM_UNIXTIME(1.5)

# --- joins whose sides have columns of one name
~SELECT r.id, t.id FROM request r JOIN timer t ON t.request_id = r.id WHERE t.id IN (SELECT timer_id FROM timertag WHERE value = 'db') AND r.id < 20
~SELECT t.id FROM timer t JOIN timer t2 ON t.request_id = t2.request_id WHERE t2.id IN (SELECT timer_id FROM timertag WHERE value = 'db') AND EXISTS (SELECT 1 FROM timertag z WHERE z.timer_id = t2.id AND z.value = 'db')
~SELECT r.id FROM request r LEFT JOIN timer t ON r.id = t.request_id WHERE t.request_id IN (SELECT id FROM request WHERE status = 200) AND EXISTS (SELECT 1 FROM timertag z WHERE z.timer_id = t.id AND z.value = 'db')
~SELECT t.id FROM timer t JOIN timertag tt ON t.id = tt.timer_id LEFT JOIN tag g ON tt.tag_id = g.id WHERE g.id IN (SELECT tag_id FROM timertag WHERE value = 'db')
~SELECT t.value FROM timer t LEFT JOIN timertag tt ON tt.timer_id = t.id LEFT JOIN tag g ON g.id = tt.tag_id WHERE tt.value IN (SELECT 'db' UNION ALL SELECT hostname FROM report_by_hostname)
SELECT COUNT(*) FROM report_by_status a RIGHT JOIN report_by_status b ON a.req_count = b.req_count + 5000 WHERE b.req_count NOT IN (500, IFNULL(a.req_count, 0))
SELECT s.status, COUNT(*) FROM request r LEFT JOIN report_by_status s ON r.status = s.status AND s.status = 200 GROUP BY s.status ORDER BY 1
SELECT s.status, r.id FROM report_by_status s RIGHT JOIN request r ON r.status = s.status AND s.status = 200 ORDER BY s.status DESC, r.id LIMIT 12
~SELECT hostname FROM report_by_hostname a JOIN report_by_hostname_and_server b USING (hostname) WHERE hostname LIKE 'web%'
~SELECT hostname FROM report_by_hostname a JOIN report_by_hostname_and_server b USING (hostname) WHERE hostname = 'web1' AND b.server_name IN (SELECT server_name FROM request WHERE hostname = 'web2')
~SELECT hostname, b.req_count FROM report_by_hostname a RIGHT JOIN report_by_hostname_and_server b USING (hostname) WHERE hostname = 'web1'
~SELECT * FROM timer LEFT JOIN (SELECT id AS request_id, status FROM request WHERE id < 5) a USING (request_id) WHERE timer.id < 30
~SELECT COUNT(DISTINCT request_id), COUNT(n) FROM (SELECT * FROM timer LEFT JOIN (SELECT id AS request_id, 1 AS n FROM request WHERE id < 9) a USING (request_id)) q
~SELECT request_id, COUNT(*) FROM (SELECT id AS request_id FROM request WHERE id < 5) a RIGHT JOIN timer USING (request_id) GROUP BY request_id HAVING request_id < 9
SELECT hostname, b.hostname, a.n FROM (SELECT hostname, COUNT(*) n FROM request GROUP BY hostname) a NATURAL RIGHT JOIN (SELECT 'nowhere' hostname UNION ALL SELECT 'web1') b ORDER BY hostname
# --- IN and EXISTS in what is selected
SELECT EXISTS (SELECT 1), NOT EXISTS (SELECT 1 FROM request WHERE id < 0), 1 IN (SELECT 2), NULL IN (SELECT 1), 3 NOT IN (SELECT id FROM request), 1 IN (SELECT NULL), NULL IN (SELECT id FROM request WHERE id < 0), 1 + EXISTS (SELECT 1)
SELECT id, id IN (SELECT request_id FROM timer WHERE hit_count > 1) a, EXISTS (SELECT 1 FROM timer t WHERE t.request_id = r.id AND t.value > 0.02) b, hostname NOT IN (SELECT NULLIF(hostname, 'web1') FROM request) c FROM request r ORDER BY id
SELECT id, CASE WHEN EXISTS (SELECT 1 FROM timer t WHERE t.request_id = r.id AND t.hit_count > 1) THEN 'some' ELSE 'none' END x FROM request r ORDER BY x, id
SELECT COUNT(*), MAX(id) IN (SELECT id FROM request), EXISTS (SELECT 1 FROM tag) FROM request
SELECT SUM(x) FROM (SELECT id IN (SELECT id FROM tag) x FROM request) t
# --- sub-queries in ON
SELECT COUNT(*) FROM request r LEFT JOIN timer t ON EXISTS (SELECT 1 FROM timertag x WHERE x.timer_id = t.id)
SELECT COUNT(*) FROM request r LEFT JOIN (timer t JOIN tag g ON EXISTS (SELECT 1 FROM timertag x WHERE x.timer_id = t.id)) ON t.request_id = r.id
SELECT COUNT(*) FROM request r JOIN timer t ON EXISTS (SELECT 1 FROM timertag x WHERE x.timer_id = t.id) RIGHT JOIN tag g ON g.id = t.id
~SELECT r.id, t.id FROM request r LEFT JOIN timer t ON t.request_id = r.id AND t.value > (SELECT AVG(x.value) FROM timer x WHERE x.request_id = t.request_id)
~SELECT r.id, t.id FROM timer t RIGHT JOIN request r ON t.request_id = r.id AND t.id NOT IN (SELECT x.timer_id FROM timertag x WHERE x.timer_id = t.id AND x.value = 'db')
~SELECT r.id, t.id FROM request r JOIN timer t ON t.request_id = r.id AND EXISTS (SELECT 1 FROM timertag x WHERE x.timer_id = t.id AND x.value = 'db') WHERE r.id < 9
~SELECT r.id, t.id, g.name FROM request r JOIN timer t ON t.request_id = r.id AND t.id IN (SELECT x.timer_id FROM timertag x WHERE x.timer_id > r.id) LEFT JOIN tag g ON g.id = t.id AND g.id IN (SELECT tag_id FROM timertag)
SELECT COUNT(*) FROM request r JOIN timer t ON EXISTS (SELECT 1 FROM timertag x WHERE x.timer_id = t.request_id) OR t.id = r.id
SELECT COUNT(*) FROM request r JOIN timer t ON t.request_id = r.id AND t.id = (SELECT MAX(x.timer_id) FROM timertag x WHERE x.timer_id = t.id) WHERE r.status = 200 OR t.hit_count > 1
~SELECT r.id, t.id, g.id FROM timer t RIGHT JOIN request r ON r.id = t.request_id AND t.id IN (SELECT timer_id FROM timertag WHERE value = 'db') JOIN tag g ON g.id = r.id AND EXISTS (SELECT 1 FROM timer x WHERE x.request_id = r.id)
SELECT COUNT(*), COUNT(t.id) FROM request r LEFT JOIN timer t ON t.request_id = r.id AND 'x' NOT IN (SELECT NULLIF(value, 'db') FROM timertag)
SELECT COUNT(*), COUNT(r.id) FROM request r RIGHT JOIN timer t ON t.request_id = r.id AND (NULL IN (SELECT 7)) IS NULL
SELECT COUNT(*), COUNT(t.id) FROM request r LEFT JOIN timer t ON t.request_id = r.id AND NOT (t.hit_count IN (SELECT NULLIF(hit_count, 2) FROM timer))
SELECT COUNT(*) FROM request r JOIN timer t ON t.request_id = r.id AND (r.hostname NOT IN (SELECT NULLIF(hostname, 'web1') FROM request) OR t.id < 9)
SELECT COUNT(*) FROM request r JOIN timer t ON t.request_id = r.id AND (r.hostname IN (SELECT NULLIF(server_name, 'shop') FROM request)) IS NULL
SELECT COUNT(*) FROM request r JOIN timer t ON t.request_id = r.id AND (NULL IN (SELECT 7)) IS NULL
# --- joins in parentheses
SELECT COUNT(*) FROM (request a JOIN timer b ON b.request_id = a.id)
SELECT COUNT(*) FROM ((request a INNER JOIN timer b ON b.request_id = a.id) LEFT JOIN timertag c ON c.timer_id = b.id) INNER JOIN tag g ON g.id = c.tag_id
SELECT COUNT(*), COUNT(c.timer_id) FROM request a LEFT JOIN (timer b JOIN timertag c ON c.timer_id = b.id AND c.value = 'db') ON b.request_id = a.id
SELECT a.id, b.id, c.id FROM tag a LEFT JOIN (tag b JOIN tag c ON c.id = b.id + 1) ON b.id = a.id + 1 ORDER BY 1
SELECT COUNT(*) FROM (report_by_hostname a JOIN report_by_hostname_and_server b USING (hostname)) WHERE hostname = 'web1'
SELECT COUNT(*), SUM(status) FROM request JOIN (SELECT '200x' AS status) x USING (status)
SELECT COUNT(*), COUNT(b.name) FROM tag a LEFT JOIN (SELECT name AS id, name FROM tag) b USING (id)

# --- what is constant on the side of an outer join that may be missing
SELECT r.id, x.flag FROM request r LEFT JOIN (SELECT request_id, 1 AS flag FROM timer WHERE value > 0.02) x ON x.request_id = r.id ORDER BY x.flag DESC, r.id LIMIT 4
SELECT r.id, x.flag FROM request r LEFT JOIN (SELECT request_id, COUNT(*) n, 'slow' AS flag FROM timer WHERE value > 0.02 GROUP BY request_id) x ON x.request_id = r.id ORDER BY x.flag DESC, r.id LIMIT 4
SELECT r.id, m.v FROM request r LEFT JOIN (SELECT MAX(id) v FROM request) m ON m.v = r.id ORDER BY m.v DESC, r.id LIMIT 3
SELECT r.id, s.label FROM (SELECT 200 AS status, 'ok' AS label) s RIGHT JOIN request r ON s.status = r.status ORDER BY s.label DESC, r.id LIMIT 12
SELECT r.id, ROW_NUMBER() OVER (ORDER BY x.flag DESC, r.id) n FROM request r LEFT JOIN (SELECT DISTINCT request_id, 1 AS flag FROM timer WHERE value > 0.02) x ON x.request_id = r.id ORDER BY n LIMIT 4
SELECT r.id, a.n, b.n FROM request r LEFT JOIN (SELECT 1 n, 3 i) a ON a.i = r.id LEFT JOIN (SELECT 1 n, 4 i) b ON b.i = r.id ORDER BY a.n DESC, b.n DESC, r.id LIMIT 4
SELECT r.id, (SELECT 'late' FROM timer t WHERE t.request_id = r.id AND t.value > 0.02 LIMIT 1) c FROM request r ORDER BY c DESC, r.id LIMIT 4

# --- IN and NOT IN: NULLs, constants, what depends on the row
SELECT COUNT(*) FROM request r WHERE r.hostname NOT IN (SELECT NULLIF(hostname, 'web1') FROM request) OR r.id < 0
SELECT COUNT(*) FROM request r WHERE NULLIF(r.hostname, 'web1') NOT IN (SELECT server_name FROM request) OR r.id < 0
SELECT COUNT(*) FROM request r WHERE NOT (r.hostname IN (SELECT NULLIF(hostname, 'web1') FROM request) AND r.id > 0)
SELECT COUNT(*) FROM request WHERE 'web1' NOT IN (SELECT hostname FROM request)
SELECT COUNT(*) FROM request WHERE 'web1' IN (SELECT hostname FROM request)
SELECT COUNT(*) FROM request WHERE 'a' NOT IN (SELECT NULLIF(hostname, 'web1') FROM request)
SELECT COUNT(*) FROM request WHERE NULL NOT IN (SELECT id FROM request)
SELECT COUNT(*) FROM request r WHERE status NOT IN (SELECT status FROM request x WHERE x.hostname = r.hostname AND x.id < 9)
SELECT COUNT(*) FROM request r WHERE NOT (status IN (SELECT status FROM request x WHERE x.hostname = r.hostname AND x.id < 9)) OR id = 1
SELECT COUNT(*), SUM(req_time = 0.187) FROM request WHERE req_time IN (SELECT 0.187) OR id = 3
SELECT COUNT(*) FROM request WHERE 0.187 IN (SELECT req_time FROM request)
SELECT COUNT(*) FROM request WHERE 0.187 NOT IN (SELECT req_time FROM request)
SELECT COUNT(*) FROM request WHERE req_time NOT IN (SELECT 0.125 + 0.031 * id FROM request)
SELECT COUNT(*) FROM request r WHERE req_time IN (SELECT 0.125 + 0.031 * (x.id - 1) FROM request x WHERE x.id = r.id)
SELECT COUNT(*) FROM request WHERE 100.000000 IN (SELECT req_time * 1e30 FROM request)
SELECT COUNT(*) FROM request WHERE id IN (SELECT FROM_UNIXTIME(timestamp) FROM request)
SELECT COUNT(*) FROM request WHERE FROM_UNIXTIME(id) IN (SELECT 19700101000000 + id FROM request)
SELECT COUNT(*) FROM request WHERE FROM_UNIXTIME(0) IN (SELECT 19700101000000)
SELECT COUNT(*) FROM request WHERE FROM_UNIXTIME(id - 1) IN (SELECT '1970-1-1' UNION SELECT '1970-01-01 00:00:05')
SELECT COUNT(*) FROM request WHERE '1970-1-1' IN (SELECT FROM_UNIXTIME(id - 1) FROM request)
SELECT COUNT(*) FROM request WHERE hostname IN (SELECT FROM_UNIXTIME(timestamp) FROM request)
SELECT COUNT(*) FROM request WHERE DATE(FROM_UNIXTIME(id)) IN (SELECT '1970-01-01' UNION SELECT 'x')
SELECT COUNT(*) FROM request r WHERE status NOT IN (SELECT x.server_name FROM request x WHERE x.server_name = r.server_name)
SELECT COUNT(*) FROM request r WHERE server_name IN (SELECT x.status FROM request x WHERE x.status = r.status) OR id < 3
SELECT COUNT(*) FROM request r WHERE (r.status = 200) NOT IN (SELECT x.status FROM request x WHERE x.status = r.status)
SELECT COUNT(*) FROM request WHERE id IN (5, 7) AND id NOT IN (NULL, 8)
SELECT COUNT(*) FROM request WHERE hostname IN (IF(status = 200, 'web1', server_name), 'a', 'b', 'c', 'd')
SELECT COUNT(*) FROM request WHERE hostname NOT IN (NULLIF(hostname, 'web1'), 'a')
SELECT id, IF(id = 3, 7, id) IN (IF(status = 200, 1, id), 0) FROM request WHERE id < 10 ORDER BY id
SELECT NULL IN ('a', 0), NULL NOT IN ('a', 0), 1 IN (NULL, 2), 1 NOT IN (NULL, 2), 2 IN (NULL, 2)
SELECT FIELD('x', NULL, 'abc'), FIELD('x', 'abc', NULL), FIELD('abc', NULL, 'abc')
SELECT COUNT(*) FROM request WHERE status IN (SELECT '200') OR id < 3
SELECT COUNT(*) FROM request WHERE status NOT IN (SELECT '200') OR id < 3 OR hostname IN (SELECT 'web3')
SELECT COUNT(*) FROM request WHERE id IN (SELECT request_id FROM timer WHERE value > 0.02 UNION SELECT NULL) OR id = 1

# --- sub-queries that aggregate what may be nothing for the row around them
SELECT COUNT(*) FROM request r WHERE EXISTS (SELECT COUNT(*) FROM timer t WHERE t.request_id = r.id AND t.value > 0.02)
SELECT COUNT(*) FROM request r WHERE NOT EXISTS (SELECT MAX(id) FROM timer t WHERE t.request_id = r.id AND t.value > 0.02)
SELECT COUNT(*) FROM request r WHERE EXISTS (SELECT 1 FROM timer t WHERE t.request_id = r.id AND t.value > 0.02 HAVING COUNT(*) = 0)
SELECT COUNT(*) FROM request r WHERE EXISTS (SELECT 1 FROM timer t WHERE t.request_id = r.id AND t.value > 0.02 HAVING COUNT(*) < 2) OR r.id = 24
SELECT COUNT(*) FROM request r WHERE NOT EXISTS (SELECT 1 FROM timer t WHERE t.request_id = r.id AND t.value > 0.02 HAVING MAX(t.value) > 0.03)
SELECT COUNT(*) FROM request r WHERE NOT EXISTS (SELECT t.request_id FROM timer t WHERE t.request_id = r.id AND t.value > 0.02 GROUP BY t.request_id HAVING COUNT(*) >= 2)
SELECT COUNT(*) FROM request r WHERE 0 IN (SELECT COUNT(*) FROM timer t WHERE t.request_id = r.id AND t.value > 0.02)
SELECT COUNT(*) FROM request r WHERE r.timers_cnt NOT IN (SELECT COUNT(*) FROM timer t WHERE t.request_id = r.id AND t.value > 0.02)
SELECT COUNT(*) FROM request r WHERE r.id IN (SELECT MAX(t.request_id) FROM timer t WHERE t.request_id = r.id AND t.value > 0.02)
SELECT COUNT(*) FROM request r WHERE r.id NOT IN (SELECT MAX(t.request_id) FROM timer t WHERE t.request_id = r.id AND t.value > 0.02)
SELECT COUNT(*) FROM request r WHERE 0 NOT IN (SELECT COUNT(*) FROM timer t WHERE t.request_id = r.id AND t.value > 0.02 HAVING COUNT(*) > 0)
SELECT r.hostname, COUNT(*) FROM request r GROUP BY r.hostname HAVING EXISTS (SELECT COUNT(*) FROM request q WHERE q.hostname = r.hostname AND q.id = 1) ORDER BY 1
SELECT r.id, (SELECT 7 FROM timer t WHERE t.request_id = r.id AND t.value > 0.02 HAVING COUNT(*) = 0) a FROM request r ORDER BY id
SELECT r.id, (SELECT 'few' FROM timer t WHERE t.request_id = r.id AND t.value > 0.02 HAVING COUNT(*) < 2) c FROM request r ORDER BY 1
SELECT r.id, (SELECT SUM(hit_count) FROM timer t WHERE t.request_id = r.id AND t.value > 0.02 HAVING COUNT(*) <> 1) c FROM request r ORDER BY 1
SELECT r.id, (SELECT COUNT(*) FROM timer t WHERE t.request_id = r.id AND t.value > 0.02 HAVING COUNT(*) < 1) c FROM request r ORDER BY 1
SELECT COUNT(*) FROM request r WHERE (SELECT MAX(value) FROM timer t WHERE t.request_id = r.id AND t.value > 0.02 HAVING COUNT(*) < 2) IS NOT NULL
SELECT COUNT(*) FROM request r WHERE (SELECT COUNT(*) FROM timer t WHERE t.request_id = r.id AND t.value > 0.02 HAVING COUNT(*) > 1) IS NULL
SELECT COUNT(*) FROM request r WHERE (SELECT COUNT(*) FROM timer t WHERE t.request_id = r.id AND t.value > 0.02 GROUP BY t.request_id) IS NULL
SELECT COUNT(*) FROM request r WHERE NOT (SELECT COUNT(*) FROM timer t WHERE t.request_id = r.id AND t.value > 0.02 GROUP BY t.request_id) > 0
SELECT r.id, IFNULL((SELECT COUNT(*) FROM timer t WHERE t.request_id = r.id AND t.value > 0.02 GROUP BY t.request_id), 0) c FROM request r ORDER BY 1
SELECT r.id, COALESCE((SELECT COUNT(*) FROM timer t WHERE t.request_id = r.id AND t.value > 0.02 GROUP BY t.request_id), 0) + 1 c FROM request r ORDER BY 1

# --- sums past 64 bits
SELECT SUM(9223372036854775807), AVG(9223372036854775807) FROM tag
SELECT SUM(x) FROM (SELECT 9223372036854775807 x UNION ALL SELECT 9223372036854775807) t
SELECT COUNT(DISTINCT hostname), SUM(id), SUM(id * 1.5), AVG(id) FROM request HAVING SUM(id) >= 10
SELECT SUM(~id), SUM(~id) OVER () FROM request WHERE id < 3 GROUP BY id ORDER BY id
SELECT id, GREATEST(req_time, ru_utime), LEAST(req_time, doc_size, NULL), CONCAT(GREATEST(req_time, ru_utime)), LEAST(req_time, NULLIF(req_time, 0), doc_size), GREATEST(req_time, 0.1), LEAST(req_time, 1), GREATEST(req_time, ru_utime) = req_time FROM request ORDER BY id
SELECT SUM(LEAST(req_time, ru_utime)), COUNT(DISTINCT GREATEST(req_time, ru_utime)) FROM request
!SELECT MAX(GREATEST(req_time, ru_utime)) FROM request
SELECT GREATEST(~0, 1), LEAST(~0, -1), GREATEST(1, ~0, 2), LEAST(~0, 5), COALESCE(~0, 1), IF(1, ~0, -1), GREATEST(~id, id) FROM request WHERE id = 1
# --- quotients inside expressions
SELECT 3/100000*100, ROUND(17/1900, 6), 1/3*3, 100*(1/3), -(1/3)*3, 2+1/3, 1/3+1/3, (1/3)/3, 1.5/7*1000000, 1/3*1000000
SELECT SUM(status >= 500)/COUNT(*)*100, AVG(status >= 500)*100, ROUND(AVG(id), 3), ROUND(100*SUM(status >= 500)/COUNT(*), 2) FROM request
SELECT hostname, SUM(status >= 500)/COUNT(*)/1000 FROM request GROUP BY hostname HAVING SUM(status >= 500)/COUNT(*)/100000 > 0.0000039 ORDER BY 1
SELECT id, ROUND(100 * id / SUM(id) OVER (), 3), id/3*3 = id, id/3 = 0.3333, id/300000 > 0.0000001, CAST(id/3 AS DECIMAL(10,8)) FROM request ORDER BY id
SELECT 200000000000/(0.1/2.675), 2000000000000/(1.5/7.5), 150000000.0/((0.5/2.25)/1.000), 1/7/7/7*1000000, 1/3/3/3/3
SELECT LEAST(12345678901, 0.000000000000000000000000000001), 12345678901 % 0.000000000000000000000000000001, ROUND(9.99, id) FROM request WHERE id = 1
SELECT IFNULL(1/3,0)*100, ABS(1/3)*100, COALESCE(1/3,0)*100, IF(1,1/3,0)*100, NULLIF(1/3,0)*100, GREATEST(1/3,0)*100, LEAST(1/3,1)*100, CASE WHEN 1 THEN 1/3 ELSE 0 END*100
SELECT IFNULL(IF(1,1/3,2),0)*100, -IFNULL(1/3,0)*100, IFNULL(1/3+1/3,0)*100, 1/IFNULL(1/3,0), ROUND(IFNULL(17/1900,0),6), FORMAT(ABS(-17/1900),6), IFNULL(1/3,0), NULLIF(1/3,0.3333), COALESCE(1/3,0.5)
SELECT hostname, IFNULL(SUM(status=500)/COUNT(*),0)*100, IF(COUNT(*)=0,0,SUM(status=500)/COUNT(*))*100 FROM request GROUP BY hostname ORDER BY 1
SELECT 1e0*(1/3), POW(1/3,2), SQRT(0.1/1.5), LN(1/3), CAST(1/3 AS DOUBLE), IFNULL(1/3,1e0), LEAST(1/3,1e0), 1/3 = '0.333333333', 1e0%(1/3)
SELECT SUM(req_time*(1/3)), SUM(IFNULL(1/3,0)*req_time) FROM request
SELECT (1/3)%1*100000, MOD(10/3,1)*100000, (1/3)%1, 1/30000%1, FLOOR(10/3*3), CEIL(1/100000), (10/3*3) DIV 1, CAST(1/3*1.5 AS SIGNED), 1/3*1.5 | 0
SELECT IF(1/100000,1,0), SIGN(1/100000), NOT 1/100000, 1/100000 AND 1, 1/100000 OR 0, 1/100000 XOR 0, IF(IFNULL(1/100000,0),1,0), IF(1/100000 > 0,1,0)
SELECT COUNT(*) FROM request WHERE id/1000000
SELECT SUM(x)/COUNT(*)*(0.0000000021/60) FROM (SELECT 250 AS x UNION ALL SELECT 500) t
SELECT (17/(100/7))*((0.000001/7)/1900), (0.000001/7/19000)*(1700/(100/7)), (0.0000166667/1024)*(250/3), -(0.0000166667/1024)*(250/3), NULL*(0.0000166667/1024)*(250/3)
SELECT (0.000001/7/19000)*(0.000001/7/19000), (1/3)*(1/3)*(1/3)*(1/3)*(1/3)*(1/3), (1/3)*(1/3)*(1/3)*(1/3)*(1/3)*(1/3)/(1/3)
SELECT hostname, SUM(status >= 500)/COUNT(*)*(0.0000000021/60), AVG(id)*(0.0000000021/60)*(1/3), COUNT(*)*(0.0000000021/60)*(SUM(id)/COUNT(*)) FROM request GROUP BY hostname ORDER BY 1
SELECT IFNULL(1/3, 0.000000), COALESCE(NULL, 1/3, 0.000000), IF(1, 1/3, 0.000000), CASE 1 WHEN 1 THEN 1/3 ELSE 0.000000 END, NULLIF(1/3, 0.0000000), IF(0, 0.00000000, 2/3), IFNULL(17/1900, 0.0000001)
SELECT GREATEST(1/3, 0.000000), LEAST(1/3, 1.000000), LEAST(2/3, 0.66669), GREATEST(2/3, 0.66669), LEAST(-1/3, 0.0000000), GREATEST(1/3, 1/7, 0.33333), GREATEST(1/3, 12345678901234567890123456789012)
SELECT IFNULL(SUM(status >= 500)/COUNT(*), 0.000000), IFNULL(AVG(id), 0.0000000), MAX(IFNULL(id/7, 0.0000000)), IFNULL((1/3)*(1/3), 0.0000000000), IFNULL((1/3)%1, 0.000000) FROM request
SELECT IFNULL(1/3, 0.000000)*1000000000, GREATEST(1/3, 0.000000)*1000000000, IFNULL(IF(1, 1/3, 0.00000), 0.0000000), -IFNULL(-(1/3), 0.000000), IFNULL(1/3, 0.000000) = 0.333333
SELECT IFNULL(1/3, 0.0000000000000000000000000), 1/3+0.0000000000000000000000001, (1/3)*1.0000000000000000000000001, 0.00000000000000000000001/(1/3), (1/3)%1.0000000000000000000000000
!SELECT 1/3 UNION ALL SELECT 0.000000
# --- names of columns in HAVING and ORDER BY
SELECT hostname, SUM(req_count) AS req_count FROM report_by_hostname_and_server GROUP BY hostname HAVING req_count > 4 ORDER BY 1
SELECT hostname, COUNT(*) AS id FROM request GROUP BY hostname HAVING id > 7 ORDER BY hostname
SELECT status DIV 100 AS status, COUNT(*) FROM request GROUP BY status DIV 100 HAVING status = 5
SELECT hostname, MAX(status) AS status FROM request GROUP BY hostname ORDER BY MAX(status), hostname
SELECT id, hostname FROM request GROUP BY id HAVING hostname = 'web1' ORDER BY id
SELECT hostname, SUM(id) AS id FROM request GROUP BY hostname HAVING SUM(id) > 10 AND id > 20 ORDER BY 1
SELECT hostname h, CONCAT(hostname, status) y FROM request ORDER BY hostname, CONCAT(hostname, status) LIMIT 3
SELECT status s, CASE WHEN status >= 500 THEN 'err' ELSE hostname END x FROM request ORDER BY status, CASE WHEN status >= 500 THEN 'err' ELSE hostname END
SELECT DISTINCT LEFT(hostname, 3) FROM request ORDER BY LEFT(hostname, 3)
SELECT id AS status, status AS id FROM request ORDER BY id, status LIMIT 5
SELECT SUM(CASE hit_count WHEN 1 THEN 1 ELSE 0 END), SUM(CASE value WHEN 1 THEN 1 ELSE 0 END) FROM timer
SELECT SEC_TO_TIME(ROUND(SUM(req_time))) FROM request
SELECT id, 1 AS weight FROM request ORDER BY 1 DESC LIMIT 2
SELECT script_name, COUNT(*), 2 AS z FROM request GROUP BY script_name ORDER BY 2 DESC, 1 LIMIT 3
SELECT DISTINCT status, 1 AS one FROM request ORDER BY 1 DESC
SELECT id, name FROM tag ORDER BY id DESC
SELECT 2026 AS y, COUNT(*) FROM tag GROUP BY y
SELECT -1 AS g, COUNT(*) FROM tag GROUP BY g
~SELECT hostname, 1 AS one, COUNT(*) FROM request WHERE hostname = 'web1' GROUP BY one
~SELECT script_name, 3 AS x, COUNT(*) AS c FROM request GROUP BY script_name, x
SET @x = 7; SELECT id FROM request WHERE id<@x ORDER BY id
SET @x = (SELECT req_time FROM request WHERE id = 3); SELECT id, @x, @x * 2, ROUND(@x, 3) FROM request WHERE req_time = @x
SELECT id, status FROM request ORDER BY (2), ((1)) DESC LIMIT 4
SELECT script_name, COUNT(*), MAX(id) FROM request GROUP BY script_name ORDER BY (3) DESC, 1, 2 LIMIT 2
SELECT id FROM request UNION SELECT 7000 ORDER BY (1) DESC LIMIT 3
(SELECT 2 AS a, 5 AS b) UNION ALL (SELECT 1, 3) ORDER BY (1) LIMIT 1
SELECT id, status FROM request ORDER BY 1.5, (NULL), (2) DESC, 1 LIMIT 4
SELECT GROUP_CONCAT(hostname, id ORDER BY (2) DESC), GROUP_CONCAT(7 ORDER BY 1) FROM request WHERE id < 7
SELECT GROUP_CONCAT(name ORDER BY 1) FROM tag
SELECT GROUP_CONCAT(DISTINCT hostname ORDER BY (1) DESC) FROM request
SELECT id FROM request ORDER BY -1
SELECT id FROM request ORDER BY (0)
SELECT id FROM request ORDER BY (2)
SELECT 2 AS a UNION ALL SELECT 1 ORDER BY (-1)
SELECT GROUP_CONCAT(id ORDER BY 2) FROM request
# --- names that are an alias and a column
SELECT COUNT(status) AS hostname FROM request GROUP BY hostname HAVING hostname = 'web1'
SELECT LEFT(hostname, 3) AS hostname, COUNT(*) FROM request GROUP BY hostname HAVING hostname = 'web1'
SELECT LEFT(hostname, 3) AS h, COUNT(*) FROM request GROUP BY h HAVING h = 'web'
SELECT status DIV 1000 AS hostname, COUNT(*) FROM request GROUP BY hostname
SELECT status DIV 1000 AS hostname, COUNT(*) FROM request GROUP BY hostname HAVING hostname = 'web1'
SELECT COALESCE(hostname, 'all') AS hostname, COUNT(*) FROM request GROUP BY hostname WITH ROLLUP
WITH a AS (SELECT 1 AS x) SELECT a.x, (WITH a AS (SELECT 7 AS x) SELECT a.x + 1 FROM a) y FROM a
SELECT 'all' AS hostname, COUNT(*) FROM request GROUP BY hostname HAVING hostname = 'web1'
~SELECT IF(a.id > 2, 'x', 'y') AS hostname, COUNT(*) FROM request a JOIN tag b ON a.id = b.id GROUP BY hostname HAVING hostname <> 'web1'
~SELECT *, SUM(req_count) AS req_count FROM report_by_hostname GROUP BY hostname
SELECT *, -id AS name FROM tag ORDER BY 1 LIMIT 2
SELECT 5 AS id, t.* FROM tag t ORDER BY t.id LIMIT 2
~SELECT * FROM (SELECT *, 1 AS one FROM tag) x
SELECT -status AS status FROM request ORDER BY status + 0, id LIMIT 5
SELECT -status AS status FROM request ORDER BY -status, id LIMIT 5
SELECT -status AS status, id FROM request ORDER BY status, id LIMIT 5
SELECT -status AS status, id FROM request ORDER BY status, status + 0, id LIMIT 5
SELECT -status AS status FROM request ORDER BY request.status, id LIMIT 5
SELECT hostname, SUM(req_count) AS req_count FROM report_by_hostname_and_server GROUP BY hostname ORDER BY req_count DESC, hostname
SELECT MAX(LEFT(hostname, 3)) AS hostname, COUNT(*) FROM request GROUP BY hostname ORDER BY CONCAT(hostname, '') DESC
SELECT COUNT(*) FROM (SELECT -status AS status FROM request ORDER BY status + 0 LIMIT 3) x WHERE x.status < 0

# --- names of columns end after 255 bytes
SELECT LENGTH('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxa'), LENGTH('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxbc'), LENGTH('жжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжж'), 1 AS `yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy`, id FROM request WHERE id = 3
# --- totals come after their groups
SELECT hostname, COUNT(*) FROM request GROUP BY 1 WITH ROLLUP
SELECT hostname, status, COUNT(*) FROM request GROUP BY hostname, status WITH ROLLUP
SELECT hostname, status, COUNT(*) FROM request GROUP BY hostname, status WITH ROLLUP LIMIT 3
SELECT IFNULL(hostname, '-') x, COUNT(*) FROM request GROUP BY x WITH ROLLUP
SELECT IF(status > 400, 1, 0) x, LEFT(script_name, 3) y, COUNT(*) FROM request GROUP BY x, y WITH ROLLUP
