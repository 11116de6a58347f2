<?php
// PDO, with emulated and with native prepared statements. Arguments: host and port of a daemon that has the twelve requests
// of tests/it/mysql.rs. Says what is wrong and ends with 1, or prints "ok".
declare(strict_types=1);

function same(mixed $wanted, mixed $got, string $what): void
{
    if ($wanted !== $got) {
        fwrite(STDERR, "$what: wanted " . var_export($wanted, true) . ', got ' . var_export($got, true) . "\n");
        exit(1);
    }
}

function refused(int $code, string $state, callable $ask, string $what): void
{
    try {
        $ask();
    } catch (PDOException $error) {
        same([$state, $code], [$error->errorInfo[0], $error->errorInfo[1]], $what);
        return;
    }
    same("error $code", 'no error', $what);
}

[, $host, $port] = $argv;
foreach (['emulated' => true, 'native' => false] as $mode => $emulate) {
    $pdo = new PDO("mysql:host=$host;port=$port;dbname=pinba;charset=utf8mb4", 'anybody', '', [
        PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
        PDO::ATTR_EMULATE_PREPARES => $emulate,
        PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_ASSOC,
    ]);
    same(true, str_contains($pdo->getAttribute(PDO::ATTR_SERVER_VERSION), '10.11.'), "$mode: version");
    same(true, str_starts_with($pdo->getAttribute(PDO::ATTR_SERVER_INFO), 'Uptime: '), "$mode: statistics");

    // Floats keep what is after the point; texts are UTF-8; numbers are numbers.
    $row = $pdo->query('SELECT id, script_name, req_time, ru_utime, status FROM request WHERE id = 7')->fetch();
    same(['id' => 7, 'script_name' => '/каталог.php', 'req_time' => 0.875, 'ru_utime' => 0.0625, 'status' => 200], $row, "$mode: a row");
    $sum = $pdo->query('SELECT count(*), sum(req_time) FROM request')->fetch(PDO::FETCH_NUM);
    same([12, 9.75], [$sum[0], (float) $sum[1]], "$mode: count and sum");

    // Values: texts as they are typed, numbers as text and as numbers, NULL; executed again.
    $find = $pdo->prepare('SELECT count(*) FROM request WHERE server_name = ? AND req_time > ?');
    foreach ([['s1.example', '0.5', 4], ['s1.example.org', 0.5, 4], ['nobody', '0', 0], [null, '0', 0]] as [$server, $time, $count]) {
        $find->execute([$server, $time]);
        same([[$count]], $find->fetchAll(PDO::FETCH_NUM), "$mode: found");
    }
    $one = $pdo->prepare('SELECT hostname FROM request WHERE id = :id LIMIT 1');
    foreach ([1 => 'web1', 2 => 'web2', 6 => 'web3'] as $id => $hostname) {
        $one->bindValue('id', $id, PDO::PARAM_INT);
        $one->execute();
        same($hostname, $one->fetchColumn(), "$mode: by number");
        $one->closeCursor();
    }
    $text = $pdo->prepare('SELECT count(*) FROM request WHERE script_name = ?');
    $text->execute(['/каталог.php']);
    same(6, $text->fetchColumn(), "$mode: a text that is not ASCII");
    $text->execute(["it's \\ \"quoted\" 100%"]);
    same(0, $text->fetchColumn(), "$mode: a text with quotes");

    // Timers with their tags, as Pinboard asks for them.
    $timers = $pdo->prepare('SELECT t.id, t.hit_count, t.value, tag.name AS tag_name, tt.value AS tag_value FROM timer t '
        . 'JOIN timertag tt ON tt.timer_id = t.id JOIN tag ON tt.tag_id = tag.id WHERE t.request_id = ? ORDER BY t.id, tag_name');
    $timers->execute([3]);
    $timers = array_map(fn ($t) => [$t['hit_count'], $t['value'], $t['tag_name'], $t['tag_value']], $timers->fetchAll());
    same([[2, 0.25, 'group', 'db'], [2, 0.25, 'op', 'read'], [1, 0.5, 'group', 'cache']], $timers, "$mode: timers");

    // Transactions: the flags of every answer say where it stands.
    $pdo->beginTransaction();
    same(12, $pdo->query('SELECT count(*) FROM request')->fetchColumn(), "$mode: in a transaction");
    same(true, $pdo->inTransaction(), "$mode: inTransaction");
    $pdo->commit();
    same(false, $pdo->inTransaction(), "$mode: after commit");
    $pdo->beginTransaction();
    $pdo->rollBack();
    same(false, $pdo->inTransaction(), "$mode: after rollback");

    // Errors, with the codes of MySQL; the connection goes on after each.
    refused(1146, '42S02', fn () => $pdo->query('SELECT * FROM nowhere'), "$mode: no such table");
    refused(1054, '42S22', fn () => $pdo->query('SELECT nothing FROM request'), "$mode: no such column");
    refused(1064, '42000', fn () => $pdo->query('SELEC 1'), "$mode: not SQL");
    refused(1290, 'HY000', fn () => $pdo->exec("INSERT INTO request (hostname) VALUES ('x')"), "$mode: a write");

    $tables = $pdo->query('SHOW TABLES')->fetchAll(PDO::FETCH_COLUMN);
    same([], array_values(array_diff(['request', 'timer', 'timertag', 'tag', 'info', 'report_by_script_name'], $tables)), "$mode: tables");
    same('pinba', $pdo->query('SELECT DATABASE()')->fetchColumn(), "$mode: database");

    // What a column is.
    $columns = $pdo->query('SELECT req_time, script_name, id FROM request r LIMIT 1');
    $meta = $columns->getColumnMeta(0);
    same(['FLOAT', 'r', 'req_time', 31], [$meta['native_type'], $meta['table'], $meta['name'], $meta['precision']], "$mode: a column");
    $columns->closeCursor();

    // One row at a time.
    $pdo->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, false);
    $ids = [];
    foreach ($pdo->query('SELECT id FROM request ORDER BY id', PDO::FETCH_COLUMN, 0) as $id) {
        $ids[] = $id;
    }
    same(range(1, 12), $ids, "$mode: unbuffered");
    $pdo->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, true);

    if ($emulate) {
        $several = $pdo->query('SELECT 1; SELECT hostname FROM request WHERE id = 2; SELECT 3');
        same([['1' => 1]], $several->fetchAll(), 'the first of several');
        same(true, $several->nextRowset(), 'there is a second');
        same([['hostname' => 'web2']], $several->fetchAll(), 'the second');
        $several->nextRowset();
        same([['3' => 3]], $several->fetchAll(), 'the third');
        same(false, $several->nextRowset(), 'and no more');
    }
}

// Without a charset the texts are the bytes all the same.
$bare = new PDO("mysql:host=$host;port=$port;dbname=pinba", 'anybody', '');
same('/каталог.php', $bare->query('SELECT script_name FROM request WHERE id = 7')->fetchColumn(), 'without a charset');
try {
    new PDO("mysql:host=$host;port=$port;dbname=nowhere", 'anybody', '');
    same('error 1049', 'no error', 'no such database');
} catch (PDOException $error) {
    same(1049, $error->getCode(), 'no such database');
}
echo "ok\n";
