//! A column is declared once: every front end shows those that are declared, in their order, with
//! their nullability.

use std::collections::BTreeSet;

use datafusion::arrow::ipc::reader::StreamReader;
use pinbad::value::{Column, Unit};

use super::Shop;
use super::client::{Client, Outcome};
use crate::harness::{pinbad, run};

const NOT_NULL: u16 = 1;

/// A report of each kind beside those that are always there.
const REPORTS: &str = "report=[{name = 'tagged', comment = 'tag_info:group::95'}, {name = 'by_script', comment = 'tag_report:group'},\
    {name = 'segments', comment = 'hv.tag_info:group'}, {name = 'of_tag', comment = 'rtag_info:env'},\
    {name = 'second', comment = 'v2/request/60/~script/hv=0:1000:100,p95/no_filters'},\
    {name = 'own', level = 'request', keys = ['script_name', 'status'], percentiles = [99.9]}]";

/// Returns the declared columns of all tables of the shop, by table name: reports, the daemon's own
/// tables, raw data.
fn declared(shop: &Shop) -> Vec<(String, Vec<Column>)> {
    let listed = shop.here.site.json("/api/v1/reports");
    let listed = listed["reports"].as_array().unwrap().iter();
    let listed = listed.map(|it| it["name"].as_str().unwrap().to_owned());
    let raw = ["request", "timer", "timertag", "tag", "request_tag"].map(str::to_owned);
    let columns = |name: String| {
        let (columns, _) = shop.here.catalog().columns_of(&name).expect(&name);
        (name, columns)
    };
    listed.chain(raw).map(columns).collect()
}

fn names(columns: &[Column]) -> Vec<&str> {
    columns.iter().map(|it| it.name.as_str()).collect()
}

#[test]
fn every_front_end_shows_the_declared_columns() {
    let shop = Shop::with(&[REPORTS]);
    let site = &shop.here.site;
    let mut client = Client::connect(shop.mysql);
    let tables = declared(&shop);
    assert!(tables.len() > 30);
    let mut units = BTreeSet::new();
    for (table, columns) in &tables {
        let table = table.as_str();
        let nullable = columns.iter().map(|it| it.nullable);
        let nullable: Vec<bool> = nullable.collect();
        units.extend(columns.iter().map(|it| it.unit.name()));

        // SQL, and the wire's definitions.
        let all = format!("SELECT * FROM `{table}` LIMIT 0");
        let Outcome::Rows { columns: told, .. } = client.query(&all) else {
            panic!("{all}");
        };
        let told_names: Vec<&str> = told.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(told_names, names(columns), "{table}");
        let told_null: Vec<bool> = told.iter().map(|it| it.flags & NOT_NULL == 0).collect();
        assert_eq!(told_null, nullable, "{table}");
        let reply = site.post("/api/v1/sql", &serde_json::json!({"query": all}).to_string());
        let types = reply.json()["columns"].as_array().unwrap().clone();
        let types = types.iter().map(|it| it["type"].as_str().unwrap().to_owned());
        let declared = columns.iter().map(|it| it.column_type.name().into_owned());
        assert!(types.eq(declared), "{table}: {}", reply.body);

        // What clients read of tables, and the statement that makes one.
        let described = client.rows(&format!("DESCRIBE `{table}`"));
        let described = described.iter().map(|row| {
            let cell = |at: usize| row[at].as_deref().unwrap();
            (cell(0).to_owned(), cell(2) == "YES")
        });
        let expected = columns.iter().map(|it| (it.name.clone(), it.nullable));
        assert!(described.eq(expected), "{table}");
        let made = shop.here.catalog().create_table(table).unwrap();
        assert_eq!(names(&made.columns), names(columns), "{table}");
        let made: Vec<bool> = made.columns.iter().map(|it| it.nullable).collect();
        assert_eq!(made, nullable, "{table}");
    }
    // No unit is declared that nothing has, but those of changes, which only comparisons have, and
    // of parts, which only objectives have.
    let known: BTreeSet<_> = Unit::ALL.map(Unit::name).into();
    let unused: Vec<_> = known.difference(&units).collect();
    assert_eq!(unused, [&Unit::Part.name(), &Unit::Ratio.name()]);
    // The document names them.
    let document = site.json("/api/v1/openapi.json");
    let unit = &document["components"]["schemas"]["ReportColumn"]["properties"]["unit"];
    let about = unit["description"].as_str().unwrap();
    for unit in known {
        assert!(about.contains(&format!("`{unit}`")), "{unit}: {about}");
    }
}

#[test]
fn rows_have_the_declared_columns_in_every_format() {
    let shop = Shop::with(&[REPORTS]);
    let site = &shop.here.site;
    let listed = site.json("/api/v1/reports");
    for report in listed["reports"].as_array().unwrap() {
        let name = report["name"].as_str().unwrap();
        let (columns, _) = shop.here.catalog().columns_of(name).unwrap();
        let told: Vec<_> = report["columns"].as_array().unwrap().iter().collect();
        let told: Vec<_> = told
            .iter()
            .map(|it| ["name", "type", "unit"].map(|of| it[of].as_str().unwrap().to_owned()))
            .collect();
        let declared: Vec<_> = columns
            .iter()
            .map(|it| {
                let (of, unit) = (it.column_type.name().into_owned(), it.unit.name());
                [it.name.clone(), of, unit.to_owned()]
            })
            .collect();
        assert_eq!(told, declared, "{name}");

        // The view of a histogram is that of a row.
        let of_row = match name {
            "segments" => "&index_value=none",
            _ => "",
        };
        let address = |format| format!("/api/v1/reports/{name}?limit=1&format={format}{of_row}");
        let rows = site.json(&address("json"))["rows"].clone();
        for row in rows.as_array().unwrap() {
            let members = row.as_object().unwrap().keys().map(String::as_str);
            assert!(members.eq(names(&columns)), "{name}: {row}");
        }
        let csv = site.get(&address("csv")).body;
        assert_eq!(csv.lines().next(), Some(&*names(&columns).join(",")));
        let arrow = site.bytes(&address("arrow"));
        let schema = StreamReader::try_new(&arrow[..], None).unwrap().schema();
        let fields = schema.fields().iter().map(|it| it.name().as_str());
        assert!(fields.eq(names(&columns)), "{name}");
    }
    // Raw requests, and what `top` and pages make of a report: each of its columns, in its unit.
    let (request, _) = shop.here.catalog().columns_of("request").unwrap();
    let row = site.json("/api/v1/requests?limit=1")["rows"][0].clone();
    let members = row.as_object().unwrap().keys().map(String::as_str);
    assert!(members.eq(names(&request)), "{row}");
    let (own, _) = shop.here.catalog().columns_of("own").unwrap();
    let url = site.http.to_string();
    let odd = ["top", "--url", &url, "--report", "own", "--sort", "nothing"];
    let said = run(pinbad().args(odd));
    let accepted = format!("accepted: {}\n", names(&own).join(", "));
    assert!(said.err.ends_with(&accepted), "{said:?}");
    let page = site.get("/reports/own?view=own").body;
    let heads = page.split("<thead>").nth(1).unwrap();
    let heads = heads.split("</thead>").next().unwrap();
    let mut rest = heads;
    for name in names(&own) {
        let at = rest.find(&format!(">{name}<"));
        rest = &rest[at.unwrap_or_else(|| panic!("{name}: {heads}"))..];
    }
}
