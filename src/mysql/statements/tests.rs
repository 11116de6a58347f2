//! Values of prepared statements, as clients send them.

use super::*;
use crate::sql::SqlColumn;

fn statements(parameters: usize) -> (Statements, u32) {
    let mut statements = Statements::new(2, Budget::new(1 << 20));
    let prepared =
        Prepared { text: "SELECT ?".into(), parameters, columns: Vec::<SqlColumn>::new().into() };
    let id = statements.add(prepared).unwrap();
    (statements, id)
}

fn values(parameters: usize, body: &[u8]) -> Result<Vec<Literal>, SqlError> {
    let (mut statements, id) = statements(parameters);
    statements.get(id, "x").unwrap().values(body)
}

#[test]
fn every_type_that_clients_send() {
    let mut body = vec![0b0000_0100, 0, 1];
    for (kind, sign) in [
        (ColumnType::MYSQL_TYPE_LONGLONG, 0),
        (ColumnType::MYSQL_TYPE_TINY, UNSIGNED),
        (ColumnType::MYSQL_TYPE_STRING, 0),
        (ColumnType::MYSQL_TYPE_DOUBLE, 0),
        (ColumnType::MYSQL_TYPE_VAR_STRING, 0),
        (ColumnType::MYSQL_TYPE_DATETIME, 0),
        (ColumnType::MYSQL_TYPE_LONGLONG, UNSIGNED),
        (ColumnType::MYSQL_TYPE_TIME, 0),
        (ColumnType::MYSQL_TYPE_SHORT, 0),
        (ColumnType::MYSQL_TYPE_NEWDECIMAL, 0),
    ] {
        body.extend_from_slice(&[kind as u8, sign]);
    }
    body.extend_from_slice(&(-5_i64).to_le_bytes());
    body.push(200);
    body.extend_from_slice(&2.5_f64.to_le_bytes());
    body.extend_from_slice(b"\x03abc");
    body.extend_from_slice(&[7, 0xE7, 0x07, 11, 14, 22, 13, 20]);
    body.extend_from_slice(&u64::MAX.to_le_bytes());
    body.extend_from_slice(&[8, 1, 1, 0, 0, 0, 1, 0, 2]);
    body.extend_from_slice(&(-3_i16).to_le_bytes());
    body.extend_from_slice(b"\x04-0.1");
    assert_eq!(
        values(10, &body).unwrap(),
        [
            Literal::Int(-5),
            Literal::Int(200),
            Literal::Null,
            Literal::Float(2.5),
            Literal::Text("abc".into()),
            Literal::Text("2023-11-14 22:13:20".into()),
            Literal::UInt(u64::MAX),
            Literal::Text("-25:00:02".into()),
            Literal::Int(-3),
            Literal::Decimal("-0.1".into()),
        ]
    );
    // Truncated anywhere, it is an error and nothing worse.
    for end in 0..body.len() {
        assert_eq!(values(10, &body[..end]).unwrap_err().code, 1835, "{end}");
    }
}

#[test]
fn types_are_remembered() {
    let (mut statements, id) = statements(1);
    let statement = statements.get(id, "x").unwrap();
    assert_eq!(statement.values(&[0, 0, 1]).unwrap_err().code, 1835);
    let first = [0, 1, ColumnType::MYSQL_TYPE_TINY as u8, 0, 7];
    assert_eq!(statement.values(&first).unwrap(), [Literal::Int(7)]);
    assert_eq!(statement.values(&[0, 0, 8]).unwrap(), [Literal::Int(8)]);
}

#[test]
fn values_in_pieces() {
    let (mut statements, id) = statements(1);
    let piece = |id: u32, parameter: u16, text: &[u8]| {
        [&id.to_le_bytes()[..], &parameter.to_le_bytes(), text].concat()
    };
    statements.add_long(&piece(id, 0, "за".as_bytes()), 100);
    statements.add_long(&piece(id, 0, b"bc"), 100);
    statements.add_long(&piece(id + 1, 0, b"nobody's"), 100);
    statements.add_long(b"cut", 100);
    let body = [0, 1, ColumnType::MYSQL_TYPE_BLOB as u8, 0];
    let statement = statements.get(id, "x").unwrap();
    assert_eq!(statement.values(&body).unwrap(), [Literal::Text("заbc".into())]);
    // They applied to that one execution.
    assert_eq!(statement.values(&body).unwrap_err().code, 1835);
    for (parameter, text, code) in [(1, &b"x"[..], 1210), (0, &[0; 101], 1153), (0, b"\xFF", 1300)]
    {
        statements.add_long(&piece(id, parameter, text), 100);
        let statement = statements.get(id, "x").unwrap();
        assert_eq!(statement.values(&body).unwrap_err().code, code);
    }
    // RESET forgets them and their errors.
    statements.add_long(&piece(id, 9, b"x"), 100);
    let statement = statements.get(id, "x").unwrap();
    statement.reset();
    let sent = [0, 1, ColumnType::MYSQL_TYPE_BLOB as u8, 0, 1, b'y'];
    assert_eq!(statement.values(&sent).unwrap(), [Literal::Text("y".into())]);
}

#[test]
fn numbers_of_statements() {
    let (mut statements, id) = statements(0);
    assert_eq!(statements.get(LAST, "x").unwrap().prepared.parameters, 0);
    let prepared = statements.get(id, "x").unwrap().prepared.clone();
    let second = statements.add(prepared.clone()).unwrap();
    assert_ne!(second, id);
    assert_eq!(statements.add(prepared.clone()).unwrap_err().code, 1461);
    statements.close(id);
    assert_eq!(statements.get(id, "x").unwrap_err().code, 1243);
    statements.none_prepared();
    assert_eq!(statements.get(LAST, "x").unwrap_err().code, 1243);
    assert!(statements.get(second, "x").is_ok());
    let third = statements.add(prepared).unwrap();
    assert_ne!(third, second);
    statements.clear();
    assert!(statements.get(second, "x").is_err());
}

#[test]
fn statements_come_out_of_the_budget() {
    let mut statements = Statements::new(1000, Budget::new(10 << 10));
    let prepared = Prepared {
        text: "x".repeat(4000).into(),
        parameters: 0,
        columns: Vec::<SqlColumn>::new().into(),
    };
    let ids: Vec<u32> = (0..2).map(|_| statements.add(prepared.clone()).unwrap()).collect();
    assert_eq!(statements.add(prepared.clone()).unwrap_err().code, 1041);
    statements.close(ids[0]);
    assert!(statements.add(prepared).is_ok());
}
