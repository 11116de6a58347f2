// MariaDB Connector/J: what JDBC's tools do. Arguments: host and port of a daemon that has the twelve requests of
// tests/it/mysql.rs. Fails by an exception, or prints "ok".
import java.sql.*;
import java.util.*;

public class Jdbc {
    static void same(Object got, Object wanted) {
        if (!Objects.equals(got, wanted)) throw new AssertionError("got " + got + ", wanted " + wanted);
    }

    static void that(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    interface Work {
        void run() throws SQLException;
    }

    static void fails(int code, Work work) {
        try {
            work.run();
        } catch (SQLException error) {
            same(error.getErrorCode(), code);
            return;
        }
        throw new AssertionError("no error " + code);
    }

    static int rows(ResultSet result) throws SQLException {
        int rows = 0;
        while (result.next()) rows++;
        result.close();
        return rows;
    }

    static void metadata(Connection connection) throws SQLException {
        DatabaseMetaData about = connection.getMetaData();
        that(about.getDatabaseProductName().contains("MariaDB"), about.getDatabaseProductName());
        that(about.getDatabaseProductVersion().startsWith("10.11"), about.getDatabaseProductVersion());
        Set<String> catalogs = new HashSet<>();
        for (ResultSet it = about.getCatalogs(); it.next();) catalogs.add(it.getString("TABLE_CAT"));
        that(catalogs.containsAll(List.of("pinba", "information_schema")), catalogs.toString());
        that(rows(about.getTableTypes()) > 0, "types of tables");
        Set<String> tables = new HashSet<>();
        for (ResultSet it = about.getTables("pinba", null, "%", null); it.next();) tables.add(it.getString("TABLE_NAME"));
        that(tables.containsAll(List.of("request", "timer", "tag", "report_by_script_name")), tables.toString());
        Map<String, Integer> columns = new LinkedHashMap<>();
        for (ResultSet it = about.getColumns("pinba", null, "request", "%"); it.next();)
            columns.put(it.getString("COLUMN_NAME"), it.getInt("DATA_TYPE"));
        same(columns.keySet().iterator().next(), "id");
        same(columns.get("hostname"), Types.VARCHAR);
        that(columns.get("req_time") == Types.FLOAT || columns.get("req_time") == Types.REAL, "" + columns);
        List<String> keys = new ArrayList<>();
        for (ResultSet it = about.getPrimaryKeys("pinba", null, "request"); it.next();) keys.add(it.getString("COLUMN_NAME"));
        same(keys, List.of("id"));
        that(rows(about.getIndexInfo("pinba", null, "request", false, true)) > 0, "indexes");
        same(rows(about.getImportedKeys("pinba", null, "timer")), 0);
        same(rows(about.getProcedures("pinba", null, "%")), 0);
    }

    static void statements(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            ResultSet result = statement.executeQuery("SELECT id, hostname, req_time, status, timestamp FROM request WHERE id = 7");
            ResultSetMetaData about = result.getMetaData();
            same(about.getColumnCount(), 5);
            same(about.getColumnLabel(2), "hostname");
            same(about.getTableName(2), "request");
            that(result.next(), "a row");
            same(result.getLong("id"), 7L);
            same(result.getString("hostname"), "web1");
            same(result.getFloat("req_time"), 0.875f);
            that(!result.next(), "one row");
            fails(1054, () -> statement.executeQuery("SELECT nothing FROM request"));
            fails(1146, () -> statement.executeQuery("SELECT * FROM nowhere"));
            fails(1290, () -> statement.executeUpdate("DELETE FROM request"));
        }
        try (PreparedStatement prepared = connection.prepareStatement("SELECT hostname, req_time FROM request WHERE id = ? AND req_time > ?")) {
            for (int id = 1; id <= 12; id++) {
                prepared.setLong(1, id);
                prepared.setDouble(2, 0.01);
                ResultSet result = prepared.executeQuery();
                that(result.next(), "request " + id);
                same(result.getString(1), "web" + ((id - 1) % 3 + 1));
                same(result.getFloat(2), 0.125f * id);
            }
        }
        try (PreparedStatement prepared = connection.prepareStatement("SELECT count(*) FROM request WHERE script_name = ?")) {
            prepared.setString(1, "/каталог.php");
            ResultSet result = prepared.executeQuery();
            that(result.next(), "a count");
            same(result.getInt(1), 6);
        }
    }

    /// A few rows at a time.
    static void batches(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement(ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY)) {
            statement.setFetchSize(5);
            same(rows(statement.executeQuery("SELECT * FROM request")), 12);
            same(rows(statement.executeQuery("SELECT * FROM timer")), 24);
            // Left in the middle: what is left is thrown away, and the connection goes on.
            that(statement.executeQuery("SELECT * FROM timer").next(), "a row");
            same(rows(statement.executeQuery("SELECT 1")), 1);
        }
    }

    /// `SET SQL_SELECT_LIMIT` before the statement, or a LIMIT around it.
    static void maxRows(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.setMaxRows(5);
            same(rows(statement.executeQuery("SELECT * FROM request")), 5);
            same(rows(statement.executeQuery("SELECT * FROM request ORDER BY id DESC LIMIT 3")), 3);
            statement.setMaxRows(0);
            same(rows(statement.executeQuery("SELECT * FROM request")), 12);
        }
        try (PreparedStatement prepared = connection.prepareStatement("SELECT * FROM request WHERE id > ?")) {
            prepared.setMaxRows(4);
            prepared.setInt(1, 2);
            same(rows(prepared.executeQuery()), 4);
        }
        try (Statement statement = connection.createStatement()) {
            same(rows(statement.executeQuery("SELECT * FROM request")), 12);
            statement.execute("SET SQL_SELECT_LIMIT = 2");
            same(rows(statement.executeQuery("SELECT * FROM request")), 2);
            statement.execute("SET SQL_SELECT_LIMIT = DEFAULT");
            same(rows(statement.executeQuery("SELECT * FROM request")), 12);
        }
    }

    /// `SET STATEMENT max_statement_time=5 FOR ...`.
    static void queryTimeout(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(60);
            same(rows(statement.executeQuery("SELECT * FROM request")), 12);
            fails(1969, () -> statement.executeQuery("SET STATEMENT max_statement_time=0.05 FOR SELECT SLEEP(20)"));
            statement.setQueryTimeout(0);
            same(rows(statement.executeQuery("SELECT * FROM request")), 12);
        }
        try (PreparedStatement prepared = connection.prepareStatement("SELECT id FROM request WHERE id = ?")) {
            prepared.setQueryTimeout(60);
            prepared.setInt(1, 3);
            same(rows(prepared.executeQuery()), 1);
        }
    }

    /// Statements that DBeaver and Metabase send when they connect, and to fill their trees.
    static void tools(Connection connection) throws SQLException {
        String[] all = {
            "SELECT DATABASE()",
            "SHOW ENGINES",
            "SHOW CHARSET",
            "SHOW COLLATION",
            "SHOW PLUGINS",
            "SHOW DATABASES",
            "SHOW VARIABLES LIKE 'lower_case_%'",
            "SHOW WARNINGS",
            "SHOW FULL TABLES FROM `pinba`",
            "SHOW TABLE STATUS FROM `pinba`",
            "SHOW CREATE TABLE `pinba`.`request`",
            "SELECT @@global.time_zone, @@system_time_zone, @@session.time_zone",
            "SELECT @@session.transaction_isolation",
            "SELECT * FROM information_schema.SCHEMATA",
            "SELECT * FROM information_schema.TABLES t WHERE t.TABLE_SCHEMA = 'pinba' AND t.TABLE_NAME = 'request'",
            "SELECT * FROM information_schema.COLUMNS WHERE TABLE_SCHEMA='pinba' AND TABLE_NAME='request' ORDER BY ORDINAL_POSITION",
            "SELECT * FROM information_schema.STATISTICS WHERE TABLE_SCHEMA='pinba' AND TABLE_NAME='request' ORDER BY TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX",
            "/* mysql-connector-java */ SELECT 1",
            "SELECT 'metabase' AS driver, VERSION(), CONNECTION_ID(), USER()",
        };
        try (Statement statement = connection.createStatement()) {
            for (String text : all) {
                try {
                    statement.execute(text);
                } catch (SQLException error) {
                    throw new AssertionError(text + ": " + error.getMessage(), error);
                }
            }
            statement.execute("SET SESSION TRANSACTION READ ONLY");
            statement.execute("SET net_write_timeout=3600");
        }
        connection.setReadOnly(true);
        connection.setAutoCommit(false);
        connection.commit();
        connection.setAutoCommit(true);
        connection.setCatalog("information_schema");
        same(connection.getCatalog(), "information_schema");
        connection.setCatalog("pinba");
        that(connection.isValid(5), "it answers");
    }

    static final Map<String, String> FORMS = new LinkedHashMap<>();
    static {
        FORMS.put("text", "&usePipelineAuth=false");
        FORMS.put("prepared by the server", "&usePipelineAuth=false&useServerPrepStmts=true");
        FORMS.put("as it comes", "");
    }

    /// As it comes, the driver sends its first statements together and gives the answers half a second, which a debug build
    /// on a busy machine may miss.
    static Connection connect(String url, int attempts) throws SQLException {
        try {
            return DriverManager.getConnection(url);
        } catch (SQLNonTransientConnectionException error) {
            if (attempts == 1) throw error;
            return connect(url, attempts - 1);
        }
    }

    interface Part {
        void run(Connection connection) throws SQLException;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Part> parts = new LinkedHashMap<>();
        parts.put("metadata", Jdbc::metadata);
        parts.put("statements", Jdbc::statements);
        parts.put("batches", Jdbc::batches);
        parts.put("max_rows", Jdbc::maxRows);
        parts.put("query_timeout", Jdbc::queryTimeout);
        parts.put("tools", Jdbc::tools);
        Part part = parts.get(arguments[0]);
        for (Map.Entry<String, String> form : FORMS.entrySet()) {
            String url = "jdbc:mariadb://" + arguments[1] + ":" + arguments[2] + "/pinba?user=anybody&connectTimeout=120000" + form.getValue();
            try (Connection connection = connect(url, 20)) {
                part.run(connection);
            } catch (Throwable error) {
                System.err.println(form.getKey());
                throw error;
            }
        }
        System.out.println("ok");
    }
}
