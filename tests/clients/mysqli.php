<?php
// mysqli: texts, prepared statements, several statements at once. Arguments and result as in pdo.php.
declare(strict_types=1);

function same(mixed $wanted, mixed $got, string $what): void
{
    if ($wanted !== $got) {
        fwrite(STDERR, "$what: wanted " . var_export($wanted, true) . ', got ' . var_export($got, true) . "\n");
        exit(1);
    }
}

mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
[, $host, $port] = $argv;
$db = new mysqli($host, 'anybody', '', 'pinba', (int) $port);
$db->set_charset('utf8mb4');
same(true, str_contains($db->server_info, '10.11.'), 'version');
same(true, str_starts_with($db->stat(), 'Uptime: '), 'statistics');
same(true, $db->thread_id > 0, 'number of the connection');
same((string) $db->thread_id, (string) $db->query('SELECT CONNECTION_ID()')->fetch_row()[0], 'the same by SQL');

$rows = $db->query('SELECT script_name, req_count, req_time_total FROM report_by_script_name ORDER BY script_name')->fetch_all();
same([['/index.php', '6', '2.625'], ['/каталог.php', '6', '7.125']], $rows, 'a report');
$field = $db->query('SELECT req_time_total AS t FROM report_by_script_name')->fetch_field();
same(['t', 'req_time_total', 'report_by_script_name', 'pinba', 31, MYSQLI_TYPE_FLOAT],
    [$field->name, $field->orgname, $field->orgtable, $field->db, $field->decimals, $field->type], 'a field');

// Numbers go as eight bytes, floats as eight, texts as texts.
$statement = $db->prepare('SELECT id, req_time, hostname FROM request WHERE status = ? AND req_time < ? AND hostname <> ? ORDER BY id');
same(3, $statement->param_count, 'parameters');
[$status, $time, $not] = [503, 1.25, 'web9'];
$statement->bind_param('ids', $status, $time, $not);
foreach ([1, 2] as $time_round) {
    $statement->execute();
    same([['id' => 4, 'req_time' => 0.5, 'hostname' => 'web1'], ['id' => 8, 'req_time' => 1.0, 'hostname' => 'web2']],
        $statement->get_result()->fetch_all(MYSQLI_ASSOC), "executed, $time_round");
}
$statement->close();

// A value in pieces, and bound results.
$statement = $db->prepare('SELECT count(*), max(req_time) FROM request WHERE script_name = ?');
$none = null;
$statement->bind_param('b', $none);
$statement->send_long_data(0, '/ката');
$statement->send_long_data(0, 'лог.php');
$statement->execute();
$statement->bind_result($count, $longest);
same(true, $statement->fetch(), 'a row');
same([6, 1.5], [$count, (float) $longest], 'of a value in pieces');
$statement->free_result();
$statement->reset();
$statement->close();

same(true, $db->multi_query('SELECT 1; SELECT id FROM request WHERE id = 5; SELECT nothing FROM request; SELECT 4'), 'several');
same([['1']], $db->store_result()->fetch_all(), 'the first');
same(true, $db->more_results() && $db->next_result(), 'more');
same([['5']], $db->store_result()->fetch_all(), 'the second');
try {
    $db->next_result();
    same('an error', 'none', 'the third');
} catch (mysqli_sql_exception $error) {
    same(1054, $error->getCode(), 'the third');
}
same(false, $db->more_results(), 'the fourth was not run');

same([['12']], $db->query('SELECT count(*) FROM timer WHERE hit_count = 2')->fetch_all(), 'still served');
same(true, $db->begin_transaction() && $db->commit(), 'a transaction');
same(true, $db->autocommit(false) && $db->autocommit(true), 'autocommit');
same(true, $db->select_db('information_schema') && $db->select_db('pinba'), 'databases');
same(true, $db->change_user('somebody', '', 'pinba'), 'somebody else');
same(true, str_starts_with($db->query('SELECT USER()')->fetch_row()[0], 'somebody@'), 'who');
same(true, $db->query('SELECT 1')->num_rows === 1, 'still served');
try {
    $db->query('SELECT SLEEP(20)', MYSQLI_ASYNC);
    $other = new mysqli($host, 'somebody', '', 'pinba', (int) $port);
    $other->kill($db->thread_id);
    $db->reap_async_query();
    same('an error', 'none', 'killed');
} catch (mysqli_sql_exception $error) {
    same(true, in_array($error->getCode(), [1317, 1927, 2006, 2013], true), "killed: {$error->getCode()}");
}
echo "ok\n";
