// go-sql-driver with the connection string that Grafana makes. Arguments: host and port of a daemon that has the twelve
// requests of tests/it/mysql.rs. Panics, or prints "ok".
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"reflect"
	"time"

	"github.com/go-sql-driver/mysql"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func same(wanted, got interface{}, what string) {
	if !reflect.DeepEqual(wanted, got) {
		panic(fmt.Sprintf("%s: wanted %v, got %v", what, wanted, got))
	}
}

func refused(code uint16, err error) {
	if failed, is := err.(*mysql.MySQLError); !is || failed.Number != code {
		panic(fmt.Sprintf("wanted error %d, got %v", code, err))
	}
}

func main() {
	address := os.Args[1] + ":" + os.Args[2]
	for _, more := range []string{"", "&interpolateParams=true", "&maxAllowedPacket=0", "&time_zone=%27%2B00:00%27"} {
		db, err := sql.Open("mysql", "anybody:@tcp("+address+")/pinba?collation=utf8mb4_unicode_ci&parseTime=true&loc=UTC&allowNativePasswords=true"+more)
		must(err)
		must(db.Ping())
		var (
			id     int64
			took   float64
			script string
			moment time.Time
		)
		// Prepared, executed, closed; the next command comes in the same packet as the close.
		for n := int64(1); n <= 12; n++ {
			row := db.QueryRow("SELECT id, req_time, script_name FROM request WHERE id = ? AND req_time > ?", n, 0.01)
			must(row.Scan(&id, &took, &script))
			same(n, id, "id")
			same(0.125*float64(n), took, "req_time")
		}
		same("/каталог.php", script, "script_name")
		must(db.QueryRow("SELECT FROM_UNIXTIME(timestamp) FROM request WHERE id = 1").Scan(&moment))
		var count int
		must(db.QueryRow("SELECT count(*) FROM request WHERE script_name = ?", "/каталог.php").Scan(&count))
		same(6, count, "by a text that is not ASCII")
		rows, err := db.Query("SELECT hostname, req_time FROM request ORDER BY id")
		must(err)
		types, err := rows.ColumnTypes()
		must(err)
		same("VARCHAR", types[0].DatabaseTypeName(), "type of a text")
		same("FLOAT", types[1].DatabaseTypeName(), "type of a float")
		for count = 0; rows.Next(); count++ {
		}
		must(rows.Err())
		same(12, count, "rows")
		_, err = db.Query("SELECT nothing FROM request")
		refused(1054, err)
		_, err = db.Query("SELECT * FROM nowhere WHERE x = ?", 1)
		refused(1146, err)
		_, err = db.Exec("INSERT INTO tag (name) VALUES (?)", "x")
		refused(1290, err)
		transaction, err := db.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
		must(err)
		must(transaction.QueryRow("SELECT count(*) FROM timer").Scan(&count))
		same(24, count, "in a transaction")
		must(transaction.Commit())
		// A query that takes too long: the driver closes its socket.
		short, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		if err := db.QueryRowContext(short, "SELECT SLEEP(20)").Scan(&count); err != context.DeadlineExceeded {
			panic(fmt.Sprint("a deadline: ", err))
		}
		cancel()
		must(db.QueryRow("SELECT 1").Scan(&count))
		must(db.Close())
	}
	fmt.Println("ok")
}
