// Node's mysql2: texts and prepared statements. Arguments: host and port of a daemon that has the twelve requests of
// tests/it/mysql.rs. Fails by an assertion, or prints "ok".
'use strict';
const assert = require('node:assert/strict');
const mysql = require('mysql2/promise');

async function main() {
  const [host, port] = process.argv.slice(2);
  const options = { host, port: Number(port), user: 'anybody', database: 'pinba', multipleStatements: true };
  const connection = await mysql.createConnection(options);
  let [rows, fields] = await connection.query('SELECT id, req_time, script_name FROM request WHERE id = ?', [7]);
  assert.deepEqual(rows, [{ id: 7, req_time: 0.875, script_name: '/каталог.php' }]);
  assert.equal(fields[1].decimals, 31);
  // Numbers go as DOUBLE.
  for (const [id, name] of [[1, 'web1'], [2, 'web2'], [6, 'web3']]) {
    [rows] = await connection.execute('SELECT hostname, req_time FROM request WHERE id = ? AND req_time > ?', [id, 0.01]);
    assert.deepEqual(rows, [{ hostname: name, req_time: 0.125 * id }]);
  }
  [rows] = await connection.execute('SELECT count(*) AS n FROM request WHERE script_name = ? AND status = ?', ['/каталог.php', '503']);
  assert.deepEqual(rows, [{ n: 2 }]);
  [rows] = await connection.execute('SHOW TABLES');
  assert.ok(rows.some((row) => row.Tables_in_pinba === 'request'));
  [rows] = await connection.query('SELECT 1 AS a; SELECT 2 AS b');
  assert.deepEqual(rows, [[{ a: 1 }], [{ b: 2 }]]);
  await assert.rejects(connection.query('SELECT nothing FROM request'), { errno: 1054, sqlState: '42S22' });
  await assert.rejects(connection.execute('SELECT * FROM nowhere'), { errno: 1146, sqlState: '42S02' });
  await connection.beginTransaction();
  await connection.commit();
  await connection.ping();
  await connection.changeUser({ user: 'somebody' });
  [rows] = await connection.query('SELECT USER() AS who');
  assert.match(rows[0].who, /^somebody@/);
  await connection.reset();
  [rows] = await connection.query('SELECT count(*) AS n FROM timer');
  assert.deepEqual(rows, [{ n: 24 }]);
  await connection.end();
  const pool = mysql.createPool({ ...options, connectionLimit: 4 });
  const many = await Promise.all(Array.from({ length: 40 }, (_, i) => pool.execute('SELECT req_time FROM request WHERE id = ?', [i % 12 + 1])));
  many.forEach(([[row]], i) => assert.equal(row.req_time, 0.125 * (i % 12 + 1)));
  await pool.end();
  console.log('ok');
}

main().catch((error) => { console.error(error); process.exit(1); });
