//! The cast of the demo: sites, hosts, scripts, and what each script waits for.

use rand::RngExt;
use rand::rngs::StdRng;

/// A virtual host and the machines that serve it.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) server: &'static str,
    pub(super) hosts: &'static [&'static str],
}

/// All machines, in the order in which they get a new release.
pub(super) const HOSTS: [&str; 7] = [
    "web-01", "web-02", "web-03", "web-04", "api-01", "api-02", "back-01",
];

const SHOP: Site = Site {
    server: "shop.example.com",
    hosts: &["web-01", "web-02", "web-03", "web-04"],
};
const API: Site = Site {
    server: "api.example.com",
    hosts: &["api-01", "api-02"],
};
const ADMIN: Site = Site {
    server: "admin.example.com",
    hosts: &["back-01"],
};

/// What a timer is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backend {
    /// Reads go to one of three replicas, writes to the main server.
    Mysql,
    MysqlMain,
    Memcached,
    Redis,
    /// Other people's services, by host name.
    Http(&'static str),
}

impl Backend {
    /// Value of the tag `group`.
    pub(super) const fn group(self) -> &'static str {
        match self {
            Self::Mysql | Self::MysqlMain => "mysql",
            Self::Memcached => "memcached",
            Self::Redis => "redis",
            Self::Http(_) => "http",
        }
    }

    /// Value of the tag `server`; `db` is the replica of this request.
    pub(super) fn server(self, rng: &mut StdRng, db: u32) -> String {
        match self {
            Self::Mysql => format!("db-replica-{db}"),
            Self::MysqlMain => "db-main".to_owned(),
            Self::Memcached => format!("cache-{}", rng.random_range(1..=4)),
            Self::Redis => format!("redis-{}", rng.random_range(1..=2)),
            Self::Http(host) => host.to_owned(),
        }
    }
}

/// One kind of wait of a script.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) backend: Backend,
    pub(super) operation: &'static str,
    /// Hits in a request, on average.
    pub(super) hits: f64,
    /// The part of the request's time that goes to it.
    pub(super) share: f64,
}

/// One script.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) site: &'static Site,
    pub(super) path: &'static str,
    /// How often it is asked for, compared with the others.
    pub(super) weight: f64,
    pub(super) median_ms: f64,
    /// Sigma of the logarithm of its times.
    pub(super) spread: f64,
    pub(super) document_kb: f64,
    pub(super) memory_mb: u32,
    /// It takes forms.
    pub(super) redirects: bool,
    pub(super) calls: &'static [Call],
}

const fn call(backend: Backend, operation: &'static str, hits: f64, share: f64) -> Call {
    Call {
        backend,
        operation,
        hits,
        share,
    }
}

/// A page that is mostly in the caches.
const CACHED: &[Call] = &[
    call(Backend::Memcached, "get", 9.0, 0.10),
    call(Backend::Mysql, "select", 0.7, 0.20),
    call(Backend::Redis, "get", 1.5, 0.05),
];
/// A page from the database.
const READ: &[Call] = &[
    call(Backend::Mysql, "select", 6.0, 0.42),
    call(Backend::Memcached, "get", 5.0, 0.06),
    call(Backend::Memcached, "set", 0.8, 0.02),
    call(Backend::Redis, "get", 1.0, 0.04),
];
/// A change.
const WRITE: &[Call] = &[
    call(Backend::Mysql, "select", 3.0, 0.18),
    call(Backend::MysqlMain, "insert", 1.2, 0.22),
    call(Backend::MysqlMain, "update", 1.0, 0.16),
    call(Backend::Memcached, "delete", 1.6, 0.03),
    call(Backend::Redis, "set", 1.0, 0.04),
];
/// Little beside the session.
const SESSION: &[Call] = &[
    call(Backend::Redis, "get", 1.2, 0.30),
    call(Backend::Redis, "set", 0.8, 0.20),
];
const SEARCH: &[Call] = &[
    call(Backend::Mysql, "select", 2.0, 0.25),
    call(Backend::Http("search.internal"), "GET", 1.0, 0.35),
    call(Backend::Memcached, "get", 3.0, 0.05),
];
const PAYMENT: &[Call] = &[
    call(Backend::Http("payments.example"), "POST", 1.1, 0.55),
    call(Backend::Mysql, "select", 4.0, 0.08),
    call(Backend::MysqlMain, "insert", 2.0, 0.10),
    call(Backend::MysqlMain, "update", 1.0, 0.06),
    call(Backend::Redis, "set", 1.0, 0.02),
];
const SHIPPING: &[Call] = &[
    call(Backend::Http("shipping.example"), "GET", 1.4, 0.60),
    call(Backend::Mysql, "select", 2.0, 0.10),
    call(Backend::Memcached, "get", 2.0, 0.04),
];
/// The back office: few, heavy queries.
const HEAVY: &[Call] = &[
    call(Backend::Mysql, "select", 14.0, 0.68),
    call(Backend::MysqlMain, "update", 0.4, 0.05),
    call(Backend::Memcached, "get", 1.0, 0.01),
];
const NOTHING: &[Call] = &[];

#[expect(clippy::too_many_arguments, reason = "one line of the table below")]
const fn script(
    site: &'static Site,
    path: &'static str,
    weight: f64,
    median_ms: f64,
    spread: f64,
    document_kb: f64,
    memory_mb: u32,
    calls: &'static [Call],
) -> Script {
    let redirects = false;
    Script {
        site,
        path,
        weight,
        median_ms,
        spread,
        document_kb,
        memory_mb,
        redirects,
        calls,
    }
}

const fn form(of: Script) -> Script {
    Script {
        redirects: true,
        ..of
    }
}

/// All scripts. Columns: site, path, weight, median ms, spread, document KB, memory MB, what it waits for.
#[rustfmt::skip]
pub(super) static SCRIPTS: [Script; 40] = [
    script(&SHOP, "/index.php",                   140.0,  38.0, 0.40,  62.0,  8, CACHED),
    script(&SHOP, "/catalog/category.php",        120.0,  64.0, 0.45,  88.0, 10, CACHED),
    script(&SHOP, "/catalog/product.php",         180.0,  52.0, 0.45,  74.0, 10, CACHED),
    script(&SHOP, "/catalog/search.php",           70.0, 110.0, 0.50,  54.0, 14, SEARCH),
    script(&SHOP, "/catalog/suggest.php",          90.0,  12.0, 0.35,   2.0,  4, SEARCH),
    script(&SHOP, "/catalog/compare.php",           8.0,  95.0, 0.40,  48.0, 12, READ),
    script(&SHOP, "/catalog/reviews.php",          22.0,  70.0, 0.50,  36.0,  8, READ),
    script(&SHOP, "/catalog/image.php",            60.0,   9.0, 0.60, 120.0,  4, NOTHING),
    script(&SHOP, "/cart/view.php",                34.0,  58.0, 0.40,  30.0,  8, READ),
    form(script(&SHOP, "/cart/add.php",            24.0,  75.0, 0.40,   1.0,  8, WRITE)),
    form(script(&SHOP, "/cart/remove.php",          7.0,  60.0, 0.40,   1.0,  8, WRITE)),
    script(&SHOP, "/cart/shipping.php",            12.0, 240.0, 0.50,  22.0, 10, SHIPPING),
    form(script(&SHOP, "/checkout/address.php",     9.0,  85.0, 0.35,  26.0, 10, WRITE)),
    form(script(&SHOP, "/checkout/pay.php",         7.0, 620.0, 0.45,  12.0, 14, PAYMENT)),
    script(&SHOP, "/checkout/done.php",             6.0, 130.0, 0.40,  20.0, 12, WRITE),
    form(script(&SHOP, "/account/login.php",       16.0, 140.0, 0.25,   4.0,  8, SESSION)),
    form(script(&SHOP, "/account/register.php",     3.0, 190.0, 0.35,   8.0,  8, WRITE)),
    script(&SHOP, "/account/orders.php",           14.0, 105.0, 0.45,  40.0, 10, READ),
    script(&SHOP, "/account/wishlist.php",          9.0,  66.0, 0.40,  28.0,  8, READ),
    script(&SHOP, "/session/ping.php",            110.0,   3.0, 0.30,   0.2,  2, SESSION),
    script(&SHOP, "/static/page.php",              26.0,  16.0, 0.30,  24.0,  4, CACHED),
    script(&SHOP, "/sitemap.php",                   1.0, 900.0, 0.40, 900.0, 40, HEAVY),

    script(&API, "/v1/products",                   95.0,  24.0, 0.40,  18.0,  6, CACHED),
    script(&API, "/v1/products/price",            130.0,   7.0, 0.35,   0.6,  4, CACHED),
    script(&API, "/v1/stock",                      85.0,  11.0, 0.40,   0.8,  4, READ),
    script(&API, "/v1/search",                     40.0,  78.0, 0.45,  14.0,  8, SEARCH),
    script(&API, "/v1/cart",                       38.0,  34.0, 0.40,   3.0,  6, WRITE),
    script(&API, "/v1/orders",                     26.0,  92.0, 0.45,   9.0,  8, WRITE),
    script(&API, "/v1/payments",                    8.0, 540.0, 0.40,   2.0, 10, PAYMENT),
    script(&API, "/v1/shipping/rates",             14.0, 210.0, 0.50,   3.0,  8, SHIPPING),
    script(&API, "/v1/users/me",                   44.0,  15.0, 0.35,   1.5,  4, SESSION),
    script(&API, "/v1/events",                     90.0,   5.0, 0.30,   0.1,  2, SESSION),

    script(&ADMIN, "/dashboard.php",                8.0, 380.0, 0.40,  60.0, 18, HEAVY),
    script(&ADMIN, "/orders/list.php",             10.0, 260.0, 0.45, 140.0, 22, HEAVY),
    form(script(&ADMIN, "/orders/edit.php",         5.0, 120.0, 0.40,  30.0, 12, WRITE)),
    script(&ADMIN, "/products/list.php",            7.0, 210.0, 0.45, 130.0, 20, HEAVY),
    form(script(&ADMIN, "/products/edit.php",       5.0, 140.0, 0.40,  44.0, 14, WRITE)),
    script(&ADMIN, "/customers/search.php",         4.0, 310.0, 0.55,  38.0, 16, HEAVY),
    script(&ADMIN, "/reports/sales.php",            1.5, 2400.0, 0.45, 220.0, 64, HEAVY),
    script(&ADMIN, "/reports/export.php",           0.8, 5200.0, 0.40, 2400.0, 120, HEAVY),
];
