//! Drivers of PHP, Python, Node, Go and Java, by the scripts of `tests/clients`.

use std::process::Command;

use super::Shop;
use super::tools::{assert_ok, script};
use crate::harness::clients;

mod php {
    use super::*;

    #[test]
    fn pdo() {
        let shop = Shop::open();
        assert_ok(Command::new("php").arg(script("pdo.php")), shop.mysql);
    }

    #[test]
    fn mysqli() {
        let shop = Shop::open();
        assert_ok(Command::new("php").arg(script("mysqli.php")), shop.mysql);
    }
}

mod python {
    use super::*;

    fn python(name: &str) {
        let shop = Shop::open();
        let python = clients().join("python/bin/python");
        assert_ok(Command::new(python).arg(script(name)), shop.mysql);
    }

    #[test]
    fn drivers() {
        python("drivers.py");
    }

    #[test]
    fn sqlalchemy_and_pandas() {
        python("alchemy.py");
    }
}

mod node {
    use super::*;

    #[test]
    fn mysql2() {
        let shop = Shop::open();
        let mut node = Command::new("node");
        node.env("NODE_PATH", clients().join("node/node_modules"));
        assert_ok(node.arg(script("mysql2.js")), shop.mysql);
    }
}

mod go {
    use super::*;

    #[test]
    fn go_sql_driver() {
        let shop = Shop::open();
        // Debian's packages of Go are sources below /usr/share/gocode.
        let mut go = Command::new("go");
        go.env("GOPATH", "/usr/share/gocode")
            .env("GO111MODULE", "off")
            .env("GOCACHE", clients().join("go"));
        assert_ok(go.arg("run").arg(script("driver.go")), shop.mysql);
    }
}

mod java {
    use super::*;

    /// Runs a part of the class, from its source.
    fn jdbc(part: &str) {
        let shop = Shop::open();
        let mut java = Command::new("java");
        java.args(["-cp", "/usr/share/java/mariadb-java-client.jar"]);
        assert_ok(java.arg(script("Jdbc.java")).arg(part), shop.mysql);
    }

    #[test]
    fn metadata() {
        jdbc("metadata");
    }

    #[test]
    fn statements() {
        jdbc("statements");
    }

    #[test]
    fn batches() {
        jdbc("batches");
    }

    #[test]
    fn max_rows() {
        jdbc("max_rows");
    }

    #[test]
    fn query_timeout() {
        jdbc("query_timeout");
    }

    #[test]
    fn tools() {
        jdbc("tools");
    }
}
