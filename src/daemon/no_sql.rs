//! SQL in a build without the feature `sql`: there is none.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use tracing::info;

use super::error::StartError;
use super::frontends::{Frontends, Served};
use crate::config::Config;
use crate::query::catalog::Catalog;
use crate::sql::Engine;

pub(super) fn engine(_: &Config, _: &Arc<Catalog>) -> Result<Option<Engine>, StartError> {
    Ok(None)
}

impl Frontends {
    pub(super) fn start_mysql(
        &mut self,
        _: &Served<'_>,
        _: TcpListener,
    ) -> Result<Option<SocketAddr>, StartError> {
        info!("Not listening for MySQL clients: this program was built without SQL.");
        Ok(None)
    }
}
