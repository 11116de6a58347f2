// How long a C client waits: one request by its id, in text and prepared, and all rows of a report. Not a test: it prints.
//
//   cc -O2 -o /tmp/latency tests/clients/latency.c $(mariadb_config --include --libs)
//   /tmp/latency 127.0.0.1 33306 1000 11
//
// Arguments: host, port, how many look-ups, how many times the report. The daemon has to have requests.
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(const char *what, double *took, int count)
{
    if (count == 0)
        return;
    qsort(took, count, sizeof *took, compare);
    printf("%-36s min %8.3f  median %8.3f  p99 %8.3f  max %8.3f ms\n", what, took[0], took[count / 2], took[count * 99 / 100],
           took[count - 1]);
}

static MYSQL *db;

static long rows(const char *text, int store)
{
    if (mysql_query(db, text))
        fail(text, mysql_error(db));
    MYSQL_RES *result = store ? mysql_store_result(db) : mysql_use_result(db);
    long count = 0;
    while (mysql_fetch_row(result))
        count++;
    mysql_free_result(result);
    return count;
}

static void execute(MYSQL_STMT *statement, long long id)
{
    MYSQL_BIND value;
    memset(&value, 0, sizeof value);
    value.buffer_type = MYSQL_TYPE_LONGLONG;
    value.buffer = &id;
    if (mysql_stmt_bind_param(statement, &value) || mysql_stmt_execute(statement) || mysql_stmt_store_result(statement))
        fail("execute", mysql_stmt_error(statement));
    if (mysql_stmt_num_rows(statement) != 1)
        fail("execute", "not one row");
    mysql_stmt_free_result(statement);
}

static MYSQL_STMT *prepare(void)
{
    const char *text = "SELECT * FROM request WHERE id = ?";
    MYSQL_STMT *statement = mysql_stmt_init(db);
    if (mysql_stmt_prepare(statement, text, strlen(text)))
        fail(text, mysql_stmt_error(statement));
    return statement;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        fail(argv[0], "HOST PORT LOOKUPS REPORTS");
    int lookups = atoi(argv[3]), reports = atoi(argv[4]);
    double *took = malloc(sizeof *took * (lookups + reports + 1));
    db = mysql_init(NULL);
    if (!mysql_real_connect(db, argv[1], "latency", "", "pinba", atoi(argv[2]), NULL, 0))
        fail("connect", mysql_error(db));
    if (mysql_query(db, "SELECT min(id), max(id) FROM request"))
        fail("ids", mysql_error(db));
    MYSQL_RES *result = mysql_store_result(db);
    MYSQL_ROW row = mysql_fetch_row(result);
    if (row[0] == NULL)
        fail("ids", "there are no requests");
    long first = atol(row[0]), count = atol(row[1]) - first + 1;
    mysql_free_result(result);
    srand(7);
    MYSQL_STMT *kept = prepare();
    for (int way = 0; way < 3; way++) {
        const char *names[] = {"WHERE id = n, text", "WHERE id = n, prepared before", "WHERE id = n, prepare to close"};
        for (int i = 0; i < lookups; i++) {
            long id = first + rand() % count;
            char text[80];
            snprintf(text, sizeof text, "SELECT * FROM request WHERE id = %ld", id);
            double start = now();
            if (way == 0) {
                if (rows(text, 1) != 1)
                    fail(text, "not one row");
            } else if (way == 1) {
                execute(kept, id);
            } else {
                MYSQL_STMT *statement = prepare();
                execute(statement, id);
                mysql_stmt_close(statement);
            }
            took[i] = now() - start;
        }
        print(names[way], took, lookups);
    }
    const char *report = "SELECT * FROM report_by_hostname_server_and_script";
    long all = 0;
    for (int i = 0; i < reports; i++) {
        double start = now();
        all = rows(report, 0);
        took[i] = now() - start;
    }
    print("all rows of a report", took, reports);
    printf("%ld rows\n", all);
    return 0;
}
